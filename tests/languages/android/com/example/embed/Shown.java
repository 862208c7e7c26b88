package com.example.embed;

import android.widget.TextView;

/** Starts the example's activity, and says what it shows. */
public final class Shown {
    public static void main(String[] words) throws Exception {
        MainActivity activity = new MainActivity();
        activity.onCreate(null);
        System.out.println(((TextView) activity.shown).text.get());
    }
}
