import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.ServerChannel;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpRequestDecoder;
import io.netty.handler.codec.http.HttpResponseEncoder;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.websocketx.WebSocketServerProtocolHandler;
import io.netty.handler.codec.http2.DefaultHttp2DataFrame;
import io.netty.handler.codec.http2.DefaultHttp2Headers;
import io.netty.handler.codec.http2.DefaultHttp2HeadersFrame;
import io.netty.handler.codec.http2.Http2DataFrame;
import io.netty.handler.codec.http2.Http2FrameCodecBuilder;
import io.netty.handler.codec.http2.Http2Headers;
import io.netty.handler.codec.http2.Http2HeadersFrame;
import io.netty.handler.codec.http2.Http2MultiplexHandler;
import io.netty.handler.ssl.OpenSsl;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import io.netty.util.AsciiString;
import io.netty.util.ReferenceCountUtil;
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;

/**
 * Netty, on native epoll where its library can be loaded, on NIO otherwise.
 *
 * <pre>{@code --mode echo|http|https|ws --threads N [--keys FILE]}</pre>
 *
 * Written against what Netty 4.1 and 4.2 have in common. As its own benchmarks do: headers are not validated, one flush for
 * all that a read brought, void promises. JSON is put together by hand, which is cheaper than any library.
 */
@SuppressWarnings("deprecation") // what 4.2 calls deprecated is all that 4.1 has
public final class Peer {
    private static final ByteBuf HELLO = constant("Hello, World!");
    private static final ByteBuf LONG = constant("x".repeat(64 * 1024));
    private static final AsciiString SERVER = AsciiString.cached("compare");
    private static final AsciiString TEXT = AsciiString.cached("text/plain");
    private static final AsciiString JSON = AsciiString.cached("application/json");
    private static final DateTimeFormatter RFC =
            DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.US);
    private static volatile AsciiString date = now();

    private static ByteBuf constant(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
        return Unpooled.unreleasableBuffer(Unpooled.directBuffer(bytes.length).writeBytes(bytes)).asReadOnly();
    }

    private static AsciiString now() {
        return new AsciiString(RFC.format(ZonedDateTime.now(ZoneOffset.UTC)));
    }

    /** Sends back what it reads, bytes or frames. */
    private static final class Echo extends ChannelInboundHandlerAdapter {
        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            context.write(message, context.voidPromise());
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            context.flush();
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close();
        }
    }

    private static final class Pages extends ChannelInboundHandlerAdapter {
        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            try {
                if (message instanceof HttpRequest) {
                    context.write(page(context, ((HttpRequest) message).uri()), context.voidPromise());
                }
            } finally {
                ReferenceCountUtil.release(message);
            }
        }

        private static FullHttpResponse page(ChannelHandlerContext context, String path) {
            switch (path) {
                case "/":
                    return reply(HttpResponseStatus.OK, TEXT, HELLO.duplicate());
                case "/json":
                    ByteBuf body = context.alloc().directBuffer(32);
                    body.writeCharSequence(json("Hello, World!"), StandardCharsets.US_ASCII);
                    return reply(HttpResponseStatus.OK, JSON, body);
                default:
                    return reply(HttpResponseStatus.NOT_FOUND, TEXT, Unpooled.EMPTY_BUFFER);
            }
        }

        private static String json(String message) {
            return "{\"message\":\"" + message + "\"}";
        }

        private static FullHttpResponse reply(HttpResponseStatus status, AsciiString kind, ByteBuf body) {
            FullHttpResponse reply = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, status, body, false);
            reply.headers()
                    .set(HttpHeaderNames.SERVER, SERVER)
                    .set(HttpHeaderNames.DATE, date)
                    .set(HttpHeaderNames.CONTENT_TYPE, kind)
                    .setInt(HttpHeaderNames.CONTENT_LENGTH, body.readableBytes());
            return reply;
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            context.flush();
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close();
        }
    }

    /** Answers when all of a request has come. */
    private static final class Streams extends ChannelInboundHandlerAdapter {
        private CharSequence path = "/";

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            boolean ends = false;
            if (message instanceof Http2HeadersFrame) {
                Http2HeadersFrame head = (Http2HeadersFrame) message;
                path = head.headers().path();
                ends = head.isEndStream();
            } else if (message instanceof Http2DataFrame) {
                ends = ((Http2DataFrame) message).isEndStream();
            }
            ReferenceCountUtil.release(message);
            if (ends) {
                ByteBuf body = path.toString().equals("/64k") ? LONG.duplicate() : HELLO.duplicate();
                Http2Headers headers = new DefaultHttp2Headers(false)
                        .status("200")
                        .set(HttpHeaderNames.SERVER, SERVER)
                        .set(HttpHeaderNames.DATE, date)
                        .set(HttpHeaderNames.CONTENT_TYPE, TEXT)
                        .setInt(HttpHeaderNames.CONTENT_LENGTH, body.readableBytes());
                context.write(new DefaultHttp2HeadersFrame(headers));
                context.write(new DefaultHttp2DataFrame(body, true));
            }
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            context.flush();
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close();
        }
    }

    private static void stages(String mode, SslContext tls, Channel channel) {
        ChannelPipeline pipeline = channel.pipeline();
        switch (mode) {
            case "echo":
                pipeline.addLast(new Echo());
                break;
            case "https":
                pipeline.addLast(tls.newHandler(channel.alloc()));
                // and then as for http
            case "http":
                pipeline.addLast(
                        new HttpResponseEncoder(), new HttpRequestDecoder(4096, 8192, 8192, false), new Pages());
                break;
            case "ws":
                pipeline.addLast(
                        new HttpServerCodec(),
                        new HttpObjectAggregator(65536),
                        new WebSocketServerProtocolHandler("/"),
                        new Echo());
                break;
            case "h2":
                pipeline.addLast(
                        Http2FrameCodecBuilder.forServer().build(),
                        new Http2MultiplexHandler(new ChannelInitializer<Channel>() {
                            @Override
                            protected void initChannel(Channel stream) {
                                stream.pipeline().addLast(new Streams());
                            }
                        }));
                break;
            default:
                throw new IllegalArgumentException("unknown mode " + mode);
        }
    }

    private static SslContext tls(String keys) throws Exception {
        char[] password = "compare".toCharArray();
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream file = new FileInputStream(keys)) {
            store.load(file, password);
        }
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, password);
        return SslContextBuilder.forServer(factory)
                .sslProvider(OpenSsl.isAvailable() ? SslProvider.OPENSSL : SslProvider.JDK)
                .protocols("TLSv1.3")
                .ciphers(List.of("TLS_AES_128_GCM_SHA256"))
                .build();
    }

    public static void main(String[] arguments) throws Exception {
        String mode = "echo";
        String keys = null;
        int threads = 1;
        for (int at = 0; at + 1 < arguments.length; at += 2) {
            switch (arguments[at]) {
                case "--mode":
                    mode = arguments[at + 1];
                    break;
                case "--threads":
                    threads = Integer.parseInt(arguments[at + 1]);
                    break;
                case "--keys":
                    keys = arguments[at + 1];
                    break;
                default:
                    throw new IllegalArgumentException("unknown argument " + arguments[at]);
            }
        }
        boolean epoll = Epoll.isAvailable();
        EventLoopGroup group = epoll ? new EpollEventLoopGroup(threads) : new NioEventLoopGroup(threads);
        Class<? extends ServerChannel> kind =
                epoll ? EpollServerSocketChannel.class : NioServerSocketChannel.class;
        String speaks = mode;
        SslContext context = mode.equals("https") ? tls(keys) : null;
        group.next().scheduleAtFixedRate(() -> date = now(), 500, 500, TimeUnit.MILLISECONDS);
        Channel listener = new ServerBootstrap()
                .group(group)
                .channel(kind)
                .option(ChannelOption.SO_BACKLOG, 4096)
                .childOption(ChannelOption.TCP_NODELAY, true)
                .childHandler(new ChannelInitializer<Channel>() {
                    @Override
                    protected void initChannel(Channel channel) {
                        stages(speaks, context, channel);
                    }
                })
                .bind("127.0.0.1", 0).sync().channel();
        System.err.println(epoll ? "native epoll" : "NIO");
        if (context != null) {
            System.err.println(OpenSsl.isAvailable() ? "TLS by BoringSSL or OpenSSL" : "TLS by the JDK");
        }
        System.out.println("127.0.0.1:" + ((InetSocketAddress) listener.localAddress()).getPort());
        while (System.in.read() >= 0) {
            // says nothing; it ends when the runner does, however it did
        }
        System.exit(0);
    }
}
