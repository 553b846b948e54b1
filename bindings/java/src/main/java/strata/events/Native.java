// SPDX-License-Identifier: MIT
package strata.events;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** The functions of libstrata by JNI, for Java before 22: src/main/native/strata_jni.c. */
final class Native {
    private Native() {}

    /** Loads the library of this class: from java.library.path, else from the jar. Then libstrata. Returns why it cannot, or null. */
    static String load() {
        try {
            System.loadLibrary("strata_jni");
        } catch (UnsatisfiedLinkError error) {
            String why = loadFromJar();
            if (why != null) {
                return why;
            }
        }
        try {
            return open();
        } catch (UnsatisfiedLinkError error) {
            return "libstrata_jni.so is of another version: " + error.getMessage();
        }
    }

    private static String loadFromJar() {
        String resource = "/strata/native/linux-" + System.getProperty("os.arch") + "/libstrata_jni.so";
        try (InputStream from = Native.class.getResourceAsStream(resource)) {
            if (from == null) {
                return "Java before 22 needs libstrata_jni.so, and this jar has no " + resource;
            }
            Path to = Files.createTempFile("strata_jni", ".so");
            try {
                Files.copy(from, to, StandardCopyOption.REPLACE_EXISTING);
                System.load(to.toString());
            } finally {
                Files.delete(to);
            }
            return null;
        } catch (IOException | UnsatisfiedLinkError error) {
            return "libstrata_jni.so cannot be loaded: " + error.getMessage();
        }
    }

    private static native String open();

    static native long address(ByteBuffer direct);

    static native ByteBuffer view(long address, int bytes);

    static native int registerProvider(long name, long out, long why, long whyBytes);

    static native int registerEvent(long provider, long description, long out, long why, long whyBytes);

    static native int registerSpan(long provider, long description, int flags, long out, long why, long whyBytes);

    static native long spanEnabled(long span);

    static native int record(long event, long[] words, int nr);

    static native int recordThree(long event, int nr, long one, long two, long three);

    static native int beginKey(long span, long key, long[] words, int nr);

    static native int endKey(long span, long key);

    static native long newKey();
}
