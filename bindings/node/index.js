// SPDX-License-Identifier: MIT
/*
 * Trace events and spans of this program, recorded by Strata.
 *
 *   const strata = require('strata-events');
 *   const sold = strata.event('shop:sold', { number: 'int', customer: 'text' });
 *
 *   sold.record(1, 'Ada');
 *
 * Where libstrata is not installed the program runs unchanged: strata.availability() says why nothing is recorded, and with
 * STRATA_VERBOSE in the environment the program says it once.
 */
'use strict';

const os = require('os');
const path = require('path');
const util = require('util');

const LEVELS = ['emerg', 'alert', 'crit', 'err', 'warning', 'notice', 'info', 'debug_system', 'debug_program', 'debug_process',
  'debug_module', 'debug_unit', 'debug_function', 'debug_line', 'debug'];
const KINDS = { int: 'i', float: 'f', bool: 'b', text: 's' };
const IS_LITTLE = os.endianness() === 'LE';
/* No sub-buffer takes more. */
const BYTES_MAX = 1 << 24;
const NAMES_MAX = 16;

let native = null;
let why = null;
try {
  native = require(path.join(process.env.STRATA_NODE || path.join(__dirname, 'build'), 'strata.node'));
  why = native.open();
} catch (error) {
  why = `the addon of strata-events is not there: ${error.message.split('\n')[0]}`;
  if (process.env.STRATA_VERBOSE) {
    process.stderr.write(`strata: events of this program are not recorded: ${why}\n`);
  }
}

let memory;
function allocate(bytes) {
  memory = Buffer.allocUnsafeSlow(bytes);
  native.memory(memory);
}
if (why === null) {
  allocate(4096);
}

function complain(name, reason) {
  if (process.env.STRATA_VERBOSE) {
    process.stderr.write(`strata: '${name}' is not recorded: ${reason}\n`);
  }
}

function writeInt(value, at) {
  let whole = value;
  if (typeof value === 'number') {
    if (Number.isSafeInteger(value)) {
      const high = Math.floor(value / 4294967296);
      if (IS_LITTLE) {
        memory.writeUInt32LE(value >>> 0, at);
        memory.writeInt32LE(high, at + 4);
      } else {
        memory.writeInt32BE(high, at);
        memory.writeUInt32BE(value >>> 0, at + 4);
      }
      return;
    }
    whole = Number.isFinite(value) ? BigInt(Math.trunc(value)) : 0n;
  } else if (typeof value !== 'bigint') {
    const number = Number(typeof value === 'symbol' ? 0 : value);
    writeInt(Number.isSafeInteger(number) ? number : 0, at);
    return;
  }
  whole = BigInt.asIntN(64, whole);
  if (IS_LITTLE) {
    memory.writeBigInt64LE(whole, at);
  } else {
    memory.writeBigInt64BE(whole, at);
  }
}

/* An object whose toString() fails is no reason for the program to fail. */
function textOf(value) {
  try {
    return typeof value === 'object' && value !== null ? util.inspect(value, { depth: 1, breakLength: Infinity }) : String(value);
  } catch (error) {
    return `<${typeof value} without a text>`;
  }
}

function numberOf(value) {
  try {
    return Number(value);
  } catch (error) {
    return 0;
  }
}

/*
 * Replaces objects by their texts and numbers. That may run code of the program, which may record events itself: therefore no field is
 * written before all are replaced.
 */
function makePlain(kinds, values) {
  for (let i = 0; i < kinds.length; i++) {
    const value = values[i];
    if ((typeof value === 'object' && value !== null) || typeof value === 'function') {
      values[i] = kinds[i] === 's' ? textOf(value) : kinds[i] === 'b' || numberOf(value);
    }
  }
}

/* Writes the fields of a record. Returns their length. */
function write(kinds, values) {
  let at = 0;
  makePlain(kinds, values);
  for (let i = 0; i < kinds.length; i++) {
    const value = values[i];
    switch (kinds[i]) {
      case 'i':
        writeInt(value, at);
        at += 8;
        break;
      case 'f': {
        const number = typeof value === 'number' ? value : typeof value === 'symbol' ? 0 : Number(value);
        if (IS_LITTLE) {
          memory.writeDoubleLE(number, at);
        } else {
          memory.writeDoubleBE(number, at);
        }
        at += 8;
        break;
      }
      case 'b':
        memory[at++] = value ? 1 : 0;
        break;
      default: {
        const text = typeof value === 'string' ? value : textOf(value);
        /* A character has at most three bytes, and each field behind this one at least has room, too. */
        const wanted = at + 4 + 3 * text.length + 8 * (kinds.length - i);
        if (wanted > memory.length) {
          const old = memory;
          allocate(Math.min(2 * wanted, BYTES_MAX));
          old.copy(memory, 0, 0, at);
        }
        const bytes = memory.utf8Write(text, at + 4, Math.max(0, memory.length - at - 4 - 8 * (kinds.length - i)));
        if (IS_LITTLE) {
          memory.writeUInt32LE(bytes, at);
        } else {
          memory.writeUInt32BE(bytes, at);
        }
        at += 4 + bytes;
      }
    }
  }
  return at;
}

const OFF = { id: 0, enabled: new ArrayBuffer(4) };

/* Registers a class. If another class has its name, it gets a number: "sold/2". */
function register(name, fields, level, isSpan) {
  const names = Object.keys(fields);
  for (const field of names) {
    if (!Object.hasOwn(KINDS, fields[field])) {
      throw new TypeError(`event '${name}': field '${field}' has type '${fields[field]}'; there are ${Object.keys(KINDS).join(', ')}`);
    }
  }
  if (!LEVELS.includes(level)) {
    throw new TypeError(`event '${name}': level '${level}'; there are ${LEVELS.join(', ')}`);
  }
  const kinds = names.map((field) => KINDS[fields[field]]);
  const made = { kinds, id: 0, enabled: null };
  let found = OFF;
  if (why === null) {
    const colon = name.indexOf(':');
    const group = colon < 0 ? 'node' : name.slice(0, colon);
    for (let number = 1; number <= NAMES_MAX; number++) {
      const event = name.slice(colon + 1) + (number > 1 ? `/${number}` : '');
      found = native.register(group, event, LEVELS.indexOf(level), kinds.join(''), names, isSpan);
      if (found !== 'another class has this name') {
        break;
      }
    }
    if (typeof found === 'string') {
      complain(name, found);
      found = OFF;
    }
  }
  made.id = found.id;
  made.enabled = new Uint32Array(found.enabled);
  return made;
}

class Event {
  constructor(name, fields, level) {
    const { id, enabled, kinds } = register(name, fields, level, false);
    this.id = id;
    this.enabled = enabled;
    this.kinds = kinds;
  }

  /* True while somebody records the event. */
  isOn() {
    return this.enabled[0] !== 0;
  }

  /* Records an event with one value for each field. */
  record(...values) {
    if (this.enabled[0] !== 0) {
      native.record(this.id, write(this.kinds, values));
    }
  }
}

class Span {
  constructor(id, key) {
    this.id = id;
    this.key = key;
  }

  /* Ends the span, the first time. */
  end() {
    if (this.key !== undefined) {
      native.end(this.id, this.key);
      this.key = undefined;
    }
  }
}

const NONE = new Span(0, undefined);

class SpanClass {
  constructor(name, fields, level) {
    const { id, enabled, kinds } = register(name, fields, level, true);
    this.id = id;
    this.enabled = enabled;
    this.kinds = kinds;
  }

  isOn() {
    return this.enabled[0] !== 0;
  }

  /* Begins a span, which may overlap others: const span = pay.begin(1); ... span.end(); */
  begin(...values) {
    if (this.enabled[0] === 0) {
      return NONE;
    }
    return new Span(this.id, native.begin(this.id, write(this.kinds, values)));
  }
}

/* Makes a class of events, "provider:event", with fields of type int, float, bool or text. */
function event(name, fields = {}, level = 'info') {
  return new Event(name, fields, level);
}

/* Makes a class of spans. */
function span(name, fields = {}, level = 'info') {
  return new SpanClass(name, fields, level);
}

/*
 * Records what is published on a diagnostics channel as events "diagnostics_channel:NAME". Fields and their values are given by
 * functions of the message; without them there is one field "message", the object as text. Returns a function that ends it.
 */
function traceChannel(name, fields = { message: ['text', (message) => message] }) {
  const types = {};
  for (const field of Object.keys(fields)) {
    types[field] = fields[field][0];
  }
  const values = Object.values(fields).map((field) => field[1]);
  const recorded = event(`diagnostics_channel:${name}`, types);
  const listener = (message) => {
    if (recorded.isOn()) {
      recorded.record(...values.map((value) => value(message)));
    }
  };
  const channel = require('diagnostics_channel').channel(name);
  channel.subscribe(listener);
  return () => channel.unsubscribe(listener);
}

/*
 * Records what a tracing channel (Node 20) traces as spans "diagnostics_channel:NAME": from its start to its end, or to the end of what it
 * starts asynchronously. Returns a function that ends it.
 */
function traceSpans(name) {
  const diagnostics = require('diagnostics_channel');
  if (!diagnostics.tracingChannel) {
    return () => {};
  }
  const spans = span(`diagnostics_channel:${name}`);
  const running = new WeakMap();
  const finish = (context) => {
    const one = running.get(context);
    if (one) {
      running.delete(context);
      one.end();
    }
  };
  const listeners = {
    start(context) {
      running.set(context, spans.begin());
    },
    end(context) {
      /* A promise or a callback that has not come yet ends it: then there is no result or error here. */
      if ('result' in context || 'error' in context) {
        finish(context);
      }
    },
    asyncStart() {},
    asyncEnd(context) {
      finish(context);
    },
    error() {},
  };
  const channel = diagnostics.tracingChannel(name);
  channel.subscribe(listeners);
  return () => channel.unsubscribe(listeners);
}

/* Returns why events of this program cannot be recorded, or null. */
function availability() {
  return why;
}

module.exports = { availability, event, span, traceChannel, traceSpans };
