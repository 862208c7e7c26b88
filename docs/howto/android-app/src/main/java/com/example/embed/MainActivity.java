package com.example.embed;

import android.app.Activity;
import android.widget.TextView;
import edgepack.Bundle;
import edgepack.EmbedException;
import java.io.IOException;

/** Shows how near two sentences are. */
public final class MainActivity extends Activity {
    /** The folder of the assets: the first archive's name. */
    private static final String NAME = "my-model-linux-arm64-fast";

    @Override
    protected void onCreate(android.os.Bundle state) {
        super.onCreate(state);
        TextView view = new TextView(this);
        setContentView(view);
        new Thread() {
            @Override
            public void run() {
                String said = similarity("A man is eating food.", "Someone is having a meal.");
                runOnUiThread(
                        new Runnable() {
                            @Override
                            public void run() {
                                view.setText(said);
                            }
                        });
            }
        }.start();
    }

    private String similarity(String first, String second) {
        try (Bundle bundle = AssetBundle.open(this, NAME)) {
            return Double.toString(bundle.similarity(first, second));
        } catch (IOException | EmbedException error) {
            return error.getMessage();
        }
    }
}
