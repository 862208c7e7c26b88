package android.app;

import android.content.Context;
import android.view.View;

/** As much of Android's class as the example of docs/howto/android-app calls, for a JVM: what it shows is kept. */
public class Activity extends Context {
    public volatile View shown;

    protected void onCreate(android.os.Bundle state) {}

    public void setContentView(View view) {
        shown = view;
    }

    public final void runOnUiThread(Runnable what) {
        what.run();
    }
}
