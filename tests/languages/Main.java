// Says what the binding of Java gives: as tests/e2e/test_apps.py asks of every language.
import edgepack.Bundle;
import edgepack.EmbedException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.AbstractList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public final class Main {
    static String bits(float[][] rows) {
        ByteBuffer out = ByteBuffer.allocate(Arrays.stream(rows).mapToInt(row -> row.length * 4).sum());
        out.order(ByteOrder.LITTLE_ENDIAN);
        for (float[] row : rows) {
            for (float number : row) {
                out.putFloat(number);
            }
        }
        return HexFormat.of().formatHex(out.array());
    }

    static String refused(Path folder, Bundle.Options options, boolean message) {
        try {
            Bundle.open(folder, options);
            return "opened";
        } catch (EmbedException error) {
            return "true " + error.code() + (message ? " " + error.getMessage() : "");
        }
    }

    public static void main(String[] words) {
        Bundle.load(Path.of(words[0]));
        Path folder = Path.of(words[1]);
        List<String> texts = List.of(words).subList(2, words.length);
        Bundle bundle = Bundle.open(folder);
        String vectors = bits(bundle.embed(texts));
        System.out.println(bundle.dimension());
        System.out.println(vectors);
        System.out.println(Arrays.stream(bundle.tokens(texts.get(0))).mapToObj(Integer::toString).collect(Collectors.joining(",")));
        System.out.println(String.format(Locale.ROOT, "%.6f", bundle.similarity(texts.get(0), texts.get(1))));
        System.out.println(IntStream.range(0, 50).parallel().allMatch(at -> bits(bundle.embed(texts)).equals(vectors)));
        Bundle.Options options = new Bundle.Options();
        options.prefix = "answer";
        System.out.println(refused(folder, options, true));
        options = new Bundle.Options();
        options.library = folder.resolve("lib/libembed.so");
        System.out.println(refused(folder.resolve("model"), options, false));
        options.publicKey = "";
        System.out.println(refused(folder, options, false));
        options.publicKey = null;
        System.out.println(refused(Path.of(""), options, false));
        System.out.println(bundle.embed(List.of()).length);
        // As in other languages: half a surrogate pair is U+FFFD.
        if (!bits(bundle.embed(List.of("a \ud800 cat"))).equals(bits(bundle.embed(List.of("a \ufffd cat"))))) {
            throw new AssertionError("half a character is another one");
        }
        // As where another thread takes texts out of it: that ended the process.
        List<String> shrinking = new AbstractList<>() {
            private int asked = 3;

            @Override
            public int size() {
                return Math.max(asked--, 1);
            }

            @Override
            public String get(int at) {
                return texts.get(0);
            }
        };
        if (bundle.embed(shrinking).length > 3) {
            throw new AssertionError("more texts than there were");
        }
        bundle.close();
        bundle.close();
        System.out.println(true);
        try {
            bundle.embed(texts);
            System.out.println(false);
        } catch (IllegalStateException closed) {
            System.out.println(true);
        }
    }
}
