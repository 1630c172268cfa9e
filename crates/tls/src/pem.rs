//! Certificates and keys out of PEM files, with errors that name the file and the line.
//!
//! Decoding itself is done by `rustls-pki-types`, section by section; here is what finds the sections and knows their lines.

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem};
use std::{
    error::Error,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// What is wrong with a PEM file, and where.
///
/// ```
/// use netwright_tls::{Certificate, TlsError};
///
/// let error = Certificate::from_pem("no certificate", "no key").unwrap_err();
/// println!("{error}"); // says what is missing, and in which file and line
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct PemError {
    /// The file; `None` for text from elsewhere.
    pub file: Option<PathBuf>,
    /// The line, counted from 1; 0 if it concerns the file as a whole.
    pub line: usize,
    /// What is wrong there.
    pub problem: PemProblem,
}

/// What can be wrong with PEM.
///
/// ```
/// use netwright_tls::PemProblem;
///
/// let problem = PemProblem::Character('?');
/// println!("{problem:?}");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PemProblem {
    /// The file could not be read.
    Io(io::Error),
    /// Nothing of the kind that was looked for is in it.
    Missing(&'static str),
    /// A section that has no end, or another one's.
    NoEnd(String),
    /// A character that base64 does not have.
    Character(char),
    /// The text of a section is cut short or otherwise no base64.
    Base64,
    /// There are two keys, and which one is meant is not known.
    SecondKey,
    /// A key that needs a password, which nobody asks for here.
    Encrypted,
    /// It was decoded, but rustls cannot use it.
    Unusable(rustls::Error),
}

impl fmt::Display for PemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}", file.display())?,
            None => f.write_str("PEM")?,
        }
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(": ")?;
        match &self.problem {
            PemProblem::Io(error) => write!(f, "{error}"),
            PemProblem::Missing(what) => write!(f, "no {what} in it"),
            PemProblem::NoEnd(label) => write!(f, "expected \"-----END {label}-----\" for what begins here"),
            PemProblem::Character(found) => write!(f, "{found:?} is no character of base64"),
            PemProblem::Base64 => f.write_str("what begins here is no base64"),
            PemProblem::SecondKey => f.write_str("a second private key, one is expected"),
            PemProblem::Encrypted => {
                f.write_str("the private key is encrypted; one without a password is expected")
            }
            PemProblem::Unusable(error) => write!(f, "{error}"),
        }
    }
}

impl Error for PemError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.problem {
            PemProblem::Io(error) => Some(error),
            PemProblem::Unusable(error) => Some(error),
            _ => None,
        }
    }
}

/// PEM text and where it comes from.
pub(crate) struct Source<'a> {
    file: Option<&'a Path>,
    text: Vec<u8>,
}

impl<'a> Source<'a> {
    pub(crate) fn file(path: &'a Path) -> Result<Self, PemError> {
        match fs::read(path) {
            Ok(text) => Ok(Self { file: Some(path), text }),
            Err(error) => Err(PemError { file: Some(path.into()), line: 0, problem: PemProblem::Io(error) }),
        }
    }

    pub(crate) fn text(text: &[u8]) -> Self {
        Self { file: None, text: text.into() }
    }

    /// All certificates, with the lines where they begin. At least one.
    pub(crate) fn certificates(&self) -> Result<Vec<(usize, CertificateDer<'static>)>, PemError> {
        let mut found = Vec::new();
        for section in self.sections()? {
            if let (pem::SectionKind::Certificate, der) = self.decode(&section)? {
                found.push((section.line, der.into()));
            }
        }
        if found.is_empty() { Err(self.error(0, PemProblem::Missing("certificate"))) } else { Ok(found) }
    }

    /// The one private key.
    pub(crate) fn private_key(&self) -> Result<(usize, PrivateKeyDer<'static>), PemError> {
        let mut key = None;
        for section in self.sections()? {
            if section.label == "ENCRYPTED PRIVATE KEY" {
                return Err(self.error(section.line, PemProblem::Encrypted));
            }
            let found = match self.decode(&section)? {
                (pem::SectionKind::PrivateKey, der) => PrivateKeyDer::Pkcs8(der.into()),
                (pem::SectionKind::RsaPrivateKey, der) => PrivateKeyDer::Pkcs1(der.into()),
                (pem::SectionKind::EcPrivateKey, der) => PrivateKeyDer::Sec1(der.into()),
                _ => continue,
            };
            if key.replace((section.line, found)).is_some() {
                return Err(self.error(section.line, PemProblem::SecondKey));
            }
        }
        key.ok_or_else(|| self.error(0, PemProblem::Missing("private key")))
    }

    pub(crate) fn error(&self, line: usize, problem: PemProblem) -> PemError {
        PemError { file: self.file.map(Into::into), line, problem }
    }

    /// The sections with their lines; what lies between them is nobody's business.
    fn sections(&self) -> Result<Vec<Section>, PemError> {
        let mut sections = Vec::new();
        let mut open: Option<Section> = None;
        for (index, line) in self.text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let trimmed = line.trim_ascii();
            if let Some(label) = marker(trimmed, b"-----BEGIN ") {
                if let Some(open) = open {
                    return Err(self.error(open.line, PemProblem::NoEnd(open.label)));
                }
                open = Some(Section { label, line: index + 1, text: line.to_vec() });
            } else if let Some(mut section) = open.take() {
                section.text.extend_from_slice(line);
                match marker(trimmed, b"-----END ") {
                    Some(label) if label == section.label => sections.push(section),
                    Some(_) => return Err(self.error(section.line, PemProblem::NoEnd(section.label))),
                    None => {
                        // Old keys have headers such as "Proc-Type: 4,ENCRYPTED".
                        if trimmed.starts_with(b"Proc-Type:") {
                            return Err(self.error(index + 1, PemProblem::Encrypted));
                        }
                        if let Some(&wrong) = trimmed.iter().find(|&&byte| !is_base64(byte)) {
                            return Err(self.error(index + 1, PemProblem::Character(char::from(wrong))));
                        }
                        open = Some(section);
                    }
                }
            }
        }
        match open {
            Some(section) => Err(self.error(section.line, PemProblem::NoEnd(section.label))),
            None => Ok(sections),
        }
    }

    fn decode(&self, section: &Section) -> Result<(pem::SectionKind, Vec<u8>), PemError> {
        match pem::from_buf(&mut section.text.as_slice()) {
            Ok(Some(decoded)) => Ok(decoded),
            Ok(None) => Ok((pem::SectionKind::Csr, Vec::new())), // of a kind that nobody here looks for
            Err(_) => Err(self.error(section.line, PemProblem::Base64)),
        }
    }
}

struct Section {
    label: String,
    line: usize,
    text: Vec<u8>,
}

fn marker(line: &[u8], begin: &[u8]) -> Option<String> {
    let label = line.strip_prefix(begin)?.strip_suffix(b"-----")?;
    Some(String::from_utf8_lossy(label).into_owned())
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\nBBBB\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

    fn error_of<T>(text: &str, read: impl Fn(&Source<'_>) -> Result<T, PemError>) -> String {
        read(&Source::text(text.as_bytes())).err().expect("an error").to_string()
    }

    #[test]
    fn certificates_are_found_among_other_text_with_their_lines() {
        let text = format!("subject: me\n{CERTIFICATE}\n{KEY}\r\n{}", CERTIFICATE.replace('\n', "\r\n"));
        let source = Source::text(text.as_bytes());
        let found = source.certificates().unwrap();
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 11]);
        assert_eq!(found[0].1.as_ref(), found[1].1.as_ref());
        assert_eq!(source.private_key().unwrap().0, 7);
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected_there() {
        let certificates = |source: &Source<'_>| source.certificates().map(drop);
        let key = |source: &Source<'_>| source.private_key().map(drop);
        assert_eq!(error_of("", certificates), "PEM: no certificate in it");
        assert_eq!(error_of(CERTIFICATE, key), "PEM: no private key in it");
        assert_eq!(
            error_of(&CERTIFICATE.replace("BBBB", "BB!B"), certificates),
            "PEM:3: '!' is no character of base64"
        );
        assert_eq!(
            error_of(&CERTIFICATE.replace("BBBB", "BBBBB"), certificates),
            "PEM:1: what begins here is no base64"
        );
        assert_eq!(
            error_of(&format!("\n{}", CERTIFICATE.replace("-----END CERTIFICATE-----\n", "")), certificates),
            "PEM:2: expected \"-----END CERTIFICATE-----\" for what begins here"
        );
        assert_eq!(
            error_of(&CERTIFICATE.replace("END CERTIFICATE", "END PRIVATE KEY"), certificates),
            "PEM:1: expected \"-----END CERTIFICATE-----\" for what begins here"
        );
        assert_eq!(error_of(&format!("{KEY}{KEY}"), key), "PEM:4: a second private key, one is expected");
        assert_eq!(
            error_of(&KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), key),
            "PEM:1: the private key is encrypted; one without a password is expected"
        );
        let old =
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        assert_eq!(
            error_of(old, key),
            "PEM:2: the private key is encrypted; one without a password is expected"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Source::file(Path::new("/nonexistent/cert.pem")).err().unwrap();
        assert!(error.to_string().starts_with("/nonexistent/cert.pem: "), "{error}");
    }
}
