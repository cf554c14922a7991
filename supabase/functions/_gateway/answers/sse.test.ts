import { describe, expect, test } from "vitest";
import { beginsWithEvents } from "./sse.ts";

const encoder = new TextEncoder();
const begins = (text: string) => beginsWithEvents(encoder.encode(text));

describe("beginsWithEvents", () => {
  test.for([
    'data: {"choices":[]}\n\n',
    "data:[DONE]",
    "event: ping",
    "id: 1\n",
    "retry: 3000",
    ": keep-alive\n\n",
    ":\n",
    "\n\r\n\rdata:",
    " \t\n  \r\nevent:",
    "\uFEFFdata:",
    "\uFEFF\n\n: waiting",
  ])("%j is recognized as an event stream once its first colon has arrived, and not before", (text) => {
    const bytes = encoder.encode(text);
    const decided = bytes.indexOf(0x3a) + 1;
    for (let size = 0; size <= bytes.length; size++) {
      expect(beginsWithEvents(bytes.subarray(0, size)), `${size} bytes`).toBe(size < decided ? undefined : true);
    }
  });

  test.for([
    '{"choices":[]}',
    '{"data":"data: x"}',
    '[{"data":1}]',
    '"data: x"',
    "<!doctype html>",
    "<html>\ndata: x",
    "upstream connect error",
    "Internal Server Error\n\ndata: x",
    "data\n",
    "data {",
    "database: down",
    "Data: x",
    "events: x",
    "identity: x",
    " data: x",
    "\uFEFF{}",
    "\uFEFF\uFEFFdata: x",
    "\n\n{}",
    "\0data:",
  ])("does not recognize %j as an event stream", (text) => {
    expect(begins(text)).toBe(false);
  });

  test("rejects a stream with an incomplete or foreign byte order mark as soon as possible", () => {
    expect(beginsWithEvents(Uint8Array.of(0xef))).toBeUndefined();
    expect(beginsWithEvents(Uint8Array.of(0xef, 0xbb))).toBeUndefined();
    expect(beginsWithEvents(Uint8Array.of(0xef, 0xbb, 0x64))).toBe(false);
    expect(beginsWithEvents(Uint8Array.of(0xff, 0xfe))).toBe(false);
    expect(beginsWithEvents(Uint8Array.of(0x1f, 0x8b))).toBe(false);
  });

  test("a stream that contains only whitespace is not yet recognized or rejected as an event stream", () => {
    for (const text of ["", " ", "\n", "\r\n\t", " \n".repeat(5_000_000)]) expect(begins(text)).toBeUndefined();
  });
});
