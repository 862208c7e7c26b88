package android.widget;

import android.content.Context;
import android.view.View;
import java.util.concurrent.CompletableFuture;

public class TextView extends View {
    public final CompletableFuture<String> text = new CompletableFuture<>();

    public TextView(Context context) {}

    public void setText(CharSequence said) {
        text.complete(said.toString());
    }
}
