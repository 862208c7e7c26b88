package edgepack;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * An open bundle that edgepack made: texts to vectors. Any number of threads may use it at once.
 *
 * <p>It calls the bundle's own library, lib/libembed.so ({@code edgepack bundle --set library=true}). That of edgepack's engine is all that
 * {@link #load} has to name; others are opened through a small library of JNI's.
 */
public final class Bundle implements AutoCloseable {
    private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
    private final int dimension;
    private long handle;

    /** What a bundle is opened with; 0 and null are its own ways. */
    public static final class Options {
        /** Texts at once. */
        public int batchSize;
        /** Tokens that count of a text, special ones included. */
        public int maxLength;
        /** Only the first so many numbers, for models that were trained for it. */
        public int dimension;
        /** Threads of the processor. */
        public int threads;
        /** "query" or "passage": what the model wants before such a text. */
        public String prefix;
        /** ECDSA P-256 in PEM: the bundle has to be signed with it. */
        public String publicKey;
        /** Another file than lib/libembed.so in the bundle's folder, for a bundle that is one file; without meaning where libembed.so is loaded. */
        public Path library;
    }

    private Bundle(long handle) {
        this.handle = handle;
        this.dimension = dimensionOf(handle);
    }

    /** Loads a libembed.so of the engine's, which serves every bundle of the engine's, or libedgepack_jni.so; once, before anything else. */
    public static void load(Path library) {
        System.load(library.toAbsolutePath().toString());
    }

    /** Opens a bundle's folder. */
    public static Bundle open(Path folder) {
        return open(folder, new Options());
    }

    /** The same, in other ways than its own. The library stays loaded when the bundle is closed. */
    public static Bundle open(Path folder, Options options) {
        Path library = options.library != null ? options.library : folder.resolve("lib/libembed.so");
        for (int number : new int[] {options.batchSize, options.maxLength, options.dimension, options.threads}) {
            if (number < 0) {
                throw new IllegalArgumentException(number + " is no number of anything");
            }
        }
        return new Bundle(
                open(
                        ended(library.toString()),
                        ended(folder.toString()),
                        new long[] {options.batchSize, options.maxLength, options.dimension, options.threads},
                        ended(options.prefix),
                        ended(options.publicKey)));
    }

    /** Numbers in a vector. */
    public int dimension() {
        return dimension;
    }

    /** One text's vector. */
    public float[] embed(String text) {
        return embed(Collections.singletonList(text))[0];
    }

    /** A vector for each text, in their order. */
    public float[][] embed(List<String> texts) {
        // Another thread may change the list meanwhile.
        String[] taken = texts.toArray(new String[0]);
        byte[][] raw = new byte[taken.length][];
        for (int at = 0; at < taken.length; at++) {
            raw[at] = bytes(taken[at]);
        }
        float[][] rows = new float[raw.length][dimension];
        long open = held();
        try {
            embed(open, raw, rows);
        } finally {
            lock.readLock().unlock();
        }
        return rows;
    }

    /** The ids of a text's tokens, as the model takes them. */
    public int[] tokens(String text) {
        byte[] raw = bytes(text);
        long open = held();
        try {
            return tokens(open, raw);
        } finally {
            lock.readLock().unlock();
        }
    }

    /** The cosine of the angle between the vectors of two texts. */
    public double similarity(String first, String second) {
        byte[][] raw = {bytes(first), bytes(second)};
        long open = held();
        try {
            return similarity(open, raw);
        } finally {
            lock.readLock().unlock();
        }
    }

    /** Waits for those who use the bundle, and closes it. A second time does nothing. */
    @Override
    public void close() {
        lock.writeLock().lock();
        try {
            if (handle != 0) {
                close(handle);
            }
            handle = 0;
        } finally {
            lock.writeLock().unlock();
        }
    }

    /** The open bundle, which stays so until the read lock is given back; no lambdas, which some of Android's tools do not take. */
    private long held() {
        lock.readLock().lock();
        if (handle == 0) {
            lock.readLock().unlock();
            throw new IllegalStateException("the bundle is closed");
        }
        return handle;
    }

    /** Half a surrogate pair is U+FFFD, as in all other languages; Java makes a question mark of it. */
    private static byte[] bytes(String text) {
        StringBuilder sound = new StringBuilder(text);
        for (int at = 0; at < sound.length(); at++) {
            if (sound.codePointAt(at) > 0xFFFF) {
                at++;
            } else if (Character.isSurrogate(sound.charAt(at))) {
                sound.setCharAt(at, '\uFFFD');
            }
        }
        return sound.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] ended(String text) {
        return text == null ? null : bytes(text + "\0");
    }

    private static native long open(byte[] library, byte[] folder, long[] numbers, byte[] prefix, byte[] publicKey);

    private static native int dimensionOf(long handle);

    private static native void embed(long handle, byte[][] texts, float[][] rows);

    private static native int[] tokens(long handle, byte[] text);

    private static native double similarity(long handle, byte[][] texts);

    private static native void close(long handle);
}
