package edgepack;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Locale;
import java.util.stream.Stream;

/**
 * Bundles that lie in jars ({@code edgepack bundle --as jar}).
 *
 * <p>The library maps a bundle's files, so a bundle is copied out of its jar once for each user, into a folder whose name has its digest. The folder lies in
 * that of the system property edgepack.cache, else in $XDG_CACHE_HOME/edgepack-java, else in ~/.cache/edgepack-java.
 */
public final class Packed {
    private static final int DAMAGED = 4;
    private static final int DOES_NOT_RUN = 5;
    private static final String LIBRARY = "libembed.so";
    private static boolean loaded;

    private Packed() {}

    /** Opens the bundle of a jar on the class path by the jar's name: the artifact, e.g. "my-model" of my-model-1.0.0.jar. */
    public static Bundle open(String name) {
        return open(name, new Bundle.Options());
    }

    /** The same, in other ways than its own. */
    public static synchronized Bundle open(String name, Bundle.Options options) {
        try {
            byte[] manifest = bytes(name + "/manifest.json");
            byte[] library = bytes("../native/" + platform() + "/" + LIBRARY);
            if (manifest == null) {
                throw new IllegalArgumentException("no jar of the class path holds a bundle " + name);
            }
            if (library == null) {
                throw new EmbedException(
                        DOES_NOT_RUN, ("the jar has no library for " + platform()).getBytes(StandardCharsets.UTF_8));
            }
            Path folder = folder().resolve(name + "-" + digest(manifest, library));
            Path bundle = folder.resolve("bundle");
            Object seen = key(folder);
            if (!holds(bundle.resolve("manifest.json"), manifest) || !holds(folder.resolve(LIBRARY), library)) {
                unpack(name, library, folder, seen);
            }
            seen = key(folder);
            if (!loaded) {
                Bundle.load(folder.resolve(LIBRARY));
                loaded = true;
            }
            try {
                return Bundle.open(bundle, options);
            } catch (EmbedException error) {
                if (error.code() != DAMAGED) {
                    throw error;
                }
                // A file was cut short or changed since it was copied.
                unpack(name, library, folder, seen);
                return Bundle.open(bundle, options);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static String platform() {
        String processor = System.getProperty("os.arch");
        String known = processor.equals("amd64") ? "x86_64" : processor.equals("arm") ? "armv7l" : processor;
        return System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + known;
    }

    private static Path folder() {
        String own = System.getProperty("edgepack.cache");
        String cache = System.getenv("XDG_CACHE_HOME");
        Path usual = cache == null || cache.isEmpty() ? Paths.get(System.getProperty("user.home"), ".cache") : Paths.get(cache);
        return own != null ? Paths.get(own) : usual.resolve("edgepack-java");
    }

    /** A place in the jar, relative to META-INF/edgepack; null where nothing is there. */
    private static InputStream resource(String name) {
        String path = name.startsWith("../") ? "META-INF" + name.substring(2) : "META-INF/edgepack/" + name;
        return Packed.class.getResourceAsStream("/" + path);
    }

    private static byte[] bytes(String name) throws IOException {
        try (InputStream in = resource(name)) {
            return in == null ? null : all(in);
        }
    }

    private static byte[] all(InputStream in) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] part = new byte[1 << 16];
        for (int length; (length = in.read(part)) >= 0; ) {
            out.write(part, 0, length);
        }
        return out.toByteArray();
    }

    private static boolean holds(Path file, byte[] content) throws IOException {
        return Files.isRegularFile(file) && Arrays.equals(content, Files.readAllBytes(file));
    }

    /** Which folder it is; null where there is none. */
    private static Object key(Path folder) throws IOException {
        try {
            return Files.readAttributes(folder, BasicFileAttributes.class).fileKey();
        } catch (NoSuchFileException missing) {
            return null;
        }
    }

    /**
     * Into a folder beside it, which then gets its name: another process sees all of it or nothing. The damaged one that was seen there goes
     * away whole; what another process has put there meanwhile stays.
     */
    private static void unpack(String name, byte[] library, Path folder, Object damaged) throws IOException {
        Files.createDirectories(folder.getParent());
        Path part = Files.createTempDirectory(folder.getParent(), ".part");
        Path old = Files.createTempDirectory(folder.getParent(), ".old");
        try {
            for (String file : new String(bytes(name + ".txt"), StandardCharsets.UTF_8).split("\n")) {
                Path place = part.resolve("bundle").resolve(file);
                Files.createDirectories(place.getParent());
                try (InputStream in = resource(name + "/" + file)) {
                    Files.copy(in, place);
                }
            }
            Files.write(part.resolve(LIBRARY), library);
            try {
                if (damaged != null && damaged.equals(key(folder))) {
                    Files.move(folder, old, StandardCopyOption.ATOMIC_MOVE);
                }
                Files.move(part, folder, StandardCopyOption.ATOMIC_MOVE);
            } catch (FileSystemException first) {
                if (!Files.isDirectory(folder)) {
                    throw first;
                }
                // Another process was first.
            }
        } finally {
            remove(part);
            remove(old);
        }
    }

    private static void remove(Path folder) throws IOException {
        if (Files.exists(folder)) {
            try (Stream<Path> all = Files.walk(folder)) {
                for (Path each : (Iterable<Path>) all.sorted(Comparator.reverseOrder())::iterator) {
                    Files.deleteIfExists(each);
                }
            }
        }
    }

    private static String digest(byte[]... parts) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (byte[] part : parts) {
                digest.update(part);
            }
            return String.format("%064x", new BigInteger(1, digest.digest())).substring(0, 16);
        } catch (NoSuchAlgorithmException missing) {
            throw new IllegalStateException(missing);
        }
    }
}
