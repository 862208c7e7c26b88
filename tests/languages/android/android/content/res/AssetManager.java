package android.content.res;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;

/** Reads a folder. */
public final class AssetManager {
    private final File folder = new File(System.getProperty("assets"));

    public String[] list(String path) throws IOException {
        String[] names = new File(folder, path).list();
        return names == null ? new String[0] : names;
    }

    public InputStream open(String name) throws IOException {
        return Files.newInputStream(new File(folder, name).toPath());
    }
}
