// Says what the bundle of a jar gives, with nothing but the jar.
import edgepack.Bundle;
import edgepack.Packed;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.stream.IntStream;

public final class OfJar {
    static String vectors(String name, List<String> texts) {
        try (Bundle bundle = Packed.open(name)) {
            float[][] rows = bundle.embed(texts);
            ByteBuffer out = ByteBuffer.allocate(rows.length * bundle.dimension() * 4).order(ByteOrder.LITTLE_ENDIAN);
            Arrays.stream(rows).forEach(row -> IntStream.range(0, row.length).forEach(at -> out.putFloat(row[at])));
            return HexFormat.of().formatHex(out.array());
        }
    }

    public static void main(String[] words) {
        List<String> texts = List.of(words).subList(1, words.length);
        String once = vectors(words[0], texts);
        System.out.println(once);
        System.out.println(IntStream.range(0, 8).parallel().allMatch(at -> vectors(words[0], texts).equals(once)));
        try {
            vectors("other", texts);
        } catch (IllegalArgumentException error) {
            System.out.println(error.getMessage());
        }
    }
}
