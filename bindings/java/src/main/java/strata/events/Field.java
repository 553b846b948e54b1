// SPDX-License-Identifier: MIT
package strata.events;

/** Name and type of a field of an event class. */
public final class Field {
    /** What values a field takes. The numbers are those of strata/events.h. */
    enum Kind {
        I64(4, false, 'i'),
        U64(8, false, 'i'),
        HEX(8, false, 'i'),
        ENUM(4, false, 'o'),
        F64(10, false, 'f'),
        BOOL(11, false, 'o'),
        TEXT(13, true, 's'),
        BYTES(5, true, 'o'),
        LONGS(4, true, 'o'),
        DOUBLES(10, true, 'o');

        final int type;
        final boolean isSequence;
        /** Kind of argument that needs no conversion: long, double, String, or another object. */
        final char argument;

        Kind(int type, boolean isSequence, char argument) {
            this.type = type;
            this.isSequence = isSequence;
            this.argument = argument;
        }
    }

    final String name;
    final Kind kind;
    final Class<? extends Enum<?>> labels;

    private Field(String name, Kind kind, Class<? extends Enum<?>> labels) {
        this.name = java.util.Objects.requireNonNull(name, "name of a field");
        this.kind = kind;
        this.labels = labels;
    }

    /** A signed integer. */
    public static Field i64(String name) {
        return new Field(name, Kind.I64, null);
    }

    /** An unsigned integer. */
    public static Field u64(String name) {
        return new Field(name, Kind.U64, null);
    }

    /** An unsigned integer that is shown in base 16. */
    public static Field hex(String name) {
        return new Field(name, Kind.HEX, null);
    }

    /** A floating-point number. */
    public static Field f64(String name) {
        return new Field(name, Kind.F64, null);
    }

    /** A truth value. */
    public static Field bool(String name) {
        return new Field(name, Kind.BOOL, null);
    }

    /** A text; of any object, as {@link String#valueOf(Object)} has it. */
    public static Field text(String name) {
        return new Field(name, Kind.TEXT, null);
    }

    /** Bytes, from a {@code byte[]}. */
    public static Field bytes(String name) {
        return new Field(name, Kind.BYTES, null);
    }

    /** Integers, from a {@code long[]} or {@code int[]}. */
    public static Field longs(String name) {
        return new Field(name, Kind.LONGS, null);
    }

    /** Floating-point numbers, from a {@code double[]}. */
    public static Field doubles(String name) {
        return new Field(name, Kind.DOUBLES, null);
    }

    /** A constant of an enumeration: its ordinal number, which readers show by its name. */
    public static Field enumeration(String name, Class<? extends Enum<?>> constants) {
        return new Field(name, Kind.ENUM, constants);
    }
}
