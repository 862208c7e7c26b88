package android.content;

import android.content.res.AssetManager;
import java.io.File;

/** Its folders are named by properties. */
public abstract class Context {
    public AssetManager getAssets() {
        return new AssetManager();
    }

    public File getNoBackupFilesDir() {
        return new File(System.getProperty("files"));
    }
}
