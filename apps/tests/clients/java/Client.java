// spymemcached: goes through a script of operations and prints the answers. `Client HOST:PORT SCRIPT`.

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.internal.OperationFuture;
import net.spy.memcached.ops.StatusCode;
import net.spy.memcached.transcoders.SerializingTranscoder;

class Client {
    private static final SerializingTranscoder TEXT = new SerializingTranscoder(2 << 20);

    private final MemcachedClient client;

    Client(String server) throws Exception {
        // Values are to cross the network as they are.
        TEXT.setCompressionThreshold(Integer.MAX_VALUE);
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder().setProtocol(Protocol.TEXT);
        builder.setOpTimeout(10_000).setTranscoder(TEXT).setDaemon(true);
        client = new MemcachedClient(builder.build(), AddrUtil.getAddresses(server));
    }

    // The value that a word of the script stands for.
    static String valueOf(String word) {
        if (!word.startsWith("@")) {
            return word;
        }
        int length = Integer.parseInt(word.substring(1));
        return "abcdefghijklmnopqrstuvwxyz".repeat(length / 26 + 1).substring(0, length);
    }

    static String shown(Object value) {
        if (value == null) {
            return "miss";
        }
        String text = value.toString();
        long sum = text.chars().asLongStream().sum();
        return text.length() <= 60 ? "value " + text : "value of " + text.length() + " bytes, sum " + sum;
    }

    static String did(OperationFuture<Boolean> future, String good, String bad) throws Exception {
        boolean answer = future.get(10, TimeUnit.SECONDS);
        StatusCode status = future.getStatus().getStatusCode();
        return answer ? good : status == StatusCode.ERR_NOT_FOUND || status == StatusCode.ERR_NOT_STORED
            ? bad : future.getStatus().getMessage();
    }

    String cas(String key, String value, String between) throws Exception {
        CASValue<Object> old = client.gets(key);
        if (old == null) {
            return "miss";
        }
        if (between != null) {
            client.set(key, 0, between).get();
        }
        CASResponse answer = client.cas(key, old.getCas(), value);
        return answer == CASResponse.OK ? "stored" : answer == CASResponse.EXISTS ? "exists" : answer.toString();
    }

    String run(String[] words) throws Exception {
        String key = words.length > 1 ? words[1] : "";
        switch (words[0]) {
            case "set":
                return did(client.set(key, Integer.parseInt(words[3]), valueOf(words[2])), "stored", "not stored");
            case "add":
                return did(client.add(key, Integer.parseInt(words[3]), valueOf(words[2])), "stored", "not stored");
            case "replace":
                return did(client.replace(key, Integer.parseInt(words[3]), valueOf(words[2])), "stored", "not stored");
            case "append":
                return did(client.append(key, valueOf(words[2])), "stored", "not stored");
            case "prepend":
                return did(client.prepend(key, valueOf(words[2])), "stored", "not stored");
            case "get":
                return shown(client.get(key));
            case "getmulti":
                StringBuilder all = new StringBuilder();
                new TreeMap<>(client.getBulk(Arrays.asList(words).subList(1, words.length)))
                    .forEach((found, value) -> all.append(found).append('=').append(value).append(' '));
                return all.toString().trim();
            case "incr":
                return "number " + client.incr(key, Long.parseLong(words[2]));
            case "decr":
                return "number " + client.decr(key, Long.parseLong(words[2]));
            case "cas":
                return cas(key, words[2], null);
            case "stalecas":
                return cas(key, words[2], "meanwhile");
            case "delete":
                return did(client.delete(key), "deleted", "miss");
            case "touch":
                return did(client.touch(key, Integer.parseInt(words[2])), "touched", "miss");
            case "flush":
                return client.flush().get() ? "ok" : "refused";
            case "sleep":
                Thread.sleep(Long.parseLong(key));
                return "slept";
            default:
                return "unknown operation";
        }
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client(arguments[0]);
        for (String line : Files.readAllLines(Path.of(arguments[1]), StandardCharsets.US_ASCII)) {
            if (line.startsWith("#")) {
                continue;
            }
            String answer;
            try {
                answer = client.run(line.split(" "));
            } catch (ExecutionException | RuntimeException e) {
                Throwable cause = e;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer = cause.getClass().getSimpleName() + ": " + cause.getMessage();
            }
            System.out.println(answer);
        }
        client.client.shutdown();
        System.exit(0);
    }
}
