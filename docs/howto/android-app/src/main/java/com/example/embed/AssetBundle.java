package com.example.embed;

import android.content.Context;
import android.content.res.AssetManager;
import edgepack.Bundle;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.Arrays;

/** A bundle among an app's assets, copied out of them once: its files are mapped. */
final class AssetBundle {
    static {
        System.loadLibrary("embed");
    }

    private AssetBundle() {}

    /** The bundle of the assets' folder NAME. The first time it copies some MB, so not on the main thread. */
    static synchronized Bundle open(Context context, String name) throws IOException {
        AssetManager assets = context.getAssets();
        File folder = new File(context.getNoBackupFilesDir(), name);
        if (!Arrays.equals(bytes(assets, name + "/manifest.json"), kept(folder))) {
            // None, or that of a version of the app with another model.
            File part = new File(context.getNoBackupFilesDir(), name + ".part");
            delete(part);
            copy(assets, name, part);
            delete(folder);
            if (!part.renameTo(folder)) {
                throw new IOException(folder + " cannot be made");
            }
        }
        return Bundle.open(folder.toPath());
    }

    private static byte[] kept(File folder) throws IOException {
        File manifest = new File(folder, "manifest.json");
        return manifest.isFile() ? Files.readAllBytes(manifest.toPath()) : null;
    }

    private static byte[] bytes(AssetManager assets, String name) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (InputStream in = assets.open(name)) {
            copy(in, out);
        }
        return out.toByteArray();
    }

    private static void copy(AssetManager assets, String from, File to) throws IOException {
        String[] names = assets.list(from);
        if (names.length > 0) {
            Files.createDirectories(to.toPath());
            for (String name : names) {
                copy(assets, from + "/" + name, new File(to, name));
            }
        } else {
            try (InputStream in = assets.open(from); OutputStream out = Files.newOutputStream(to.toPath())) {
                copy(in, out);
            }
        }
    }

    private static void copy(InputStream in, OutputStream out) throws IOException {
        byte[] part = new byte[1 << 16];
        for (int length; (length = in.read(part)) >= 0; ) {
            out.write(part, 0, length);
        }
    }

    private static void delete(File file) throws IOException {
        File[] inside = file.listFiles();
        if (inside != null) {
            for (File each : inside) {
                delete(each);
            }
        }
        Files.deleteIfExists(file.toPath());
    }
}
