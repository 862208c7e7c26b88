package edgepack;

import java.nio.charset.StandardCharsets;

/** What the library refused. */
public final class EmbedException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final int code;

    /** Called from the library, whose messages are UTF-8. */
    EmbedException(int code, byte[] message) {
        super(new String(message, StandardCharsets.UTF_8));
        this.code = code;
    }

    /** As the program's exit codes: 2 a wish that the model cannot fulfil, 4 a damaged bundle, 5 a model that does not run. */
    public int code() {
        return code;
    }
}
