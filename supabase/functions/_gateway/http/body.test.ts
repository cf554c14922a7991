import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createBodyReader } from "./body.ts";
import { createBodyMemory } from "./body-memory.ts";
import { GatewayError } from "./errors.ts";
import { parseJson } from "./parse-json.ts";

const post = (body: BodyInit, headers: Record<string, string> = { "content-type": "application/json" }) =>
  new Request("http://gateway/", { method: "POST", body, headers, duplex: "half" } as RequestInit);
const parse = (text: string) => parseJson(post(text), new TextEncoder().encode(text));

const small = { uncheckedEach: 10, uncheckedAll: 20, workspaceAll: 40, checkedAll: 60, idleMs: 200, msPerMebibyte: 0 };

/** Returns a request whose body continues only on command. */
function trickle() {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  let cancelled = false;
  const stream = new ReadableStream<Uint8Array>({
    start: (started) => {
      controller = started;
    },
    cancel: () => {
      cancelled = true;
    },
  });
  return {
    request: post(stream),
    send: (bytes: number) => controller?.enqueue(new Uint8Array(bytes)),
    close: () => controller?.close(),
    fail: () => controller?.error(new Error("the connection was reset")),
    cancelled: () => cancelled,
  };
}

/** Returns a caller that counts how often it was checked. */
function caller(workspace?: string) {
  let asked = 0;
  return {
    asked: () => asked,
    async check() {
      asked += 1;
      if (workspace === undefined) throw new GatewayError("invalid_api_key");
      return workspace;
    },
  };
}

describe("Reading a body", () => {
  const readBody = createBodyReader(createBodyMemory(64 * 1024 * 1024));
  const upTo = (limitBytes: number) => ({ limitBytes, ...caller("w") });
  const ofWorkspace = (workspace: string) => ({ limitBytes: 100, ...caller(workspace) });
  test("accepts a body at the limit and not one byte more", async () => {
    expect((await readBody(post("x".repeat(8)), upTo(8))).bytes.byteLength).toBe(8);
    await expect(readBody(post("x".repeat(9)), upTo(8))).rejects.toMatchObject({
      code: "payload_too_large",
      status: 413,
    });
  });

  test("counts a body's actual bytes rather than the stated length", async () => {
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(1_000)),
      cancel: () => {
        cancelled = true;
      },
    });
    await expect(readBody(post(endless), upTo(10_000))).rejects.toMatchObject({ code: "payload_too_large" });
    expect(cancelled).toBe(true);
  });

  test("returns no bytes for an empty body", async () => {
    expect((await readBody(new Request("http://gateway/", { method: "POST" }), upTo(8))).bytes.byteLength).toBe(0);
  });

  test("reads a small body without checking the caller, and stops reading a larger body if the check fails", async () => {
    const read = createBodyReader(createBodyMemory(6_000), small);
    const [within, beyond, stranger] = [caller("w"), caller("w"), caller()];
    await read(post("x".repeat(10)), { limitBytes: 100, ...within });
    await read(post("x".repeat(11)), { limitBytes: 100, ...beyond });
    expect([within.asked(), beyond.asked()]).toEqual([0, 1]);
    const body = trickle();
    const reading = read(body.request, { limitBytes: 100, ...stranger });
    body.send(11);
    await expect(reading).rejects.toMatchObject({ code: "invalid_api_key" });
    expect(body.cancelled()).toBe(true);
  });

  test("bodies of callers with a valid credential are still read when unchecked callers have filled their share of memory", async () => {
    const read = createBodyReader(createBodyMemory(6_000), small);
    const strangers = [trickle(), trickle()];
    const readings = strangers.map((body) =>
      expect(read(body.request, { limitBytes: 100, ...caller() })).rejects.toMatchObject({ status: 408 }),
    );
    for (const body of strangers) body.send(10);
    await new Promise((resolve) => setTimeout(resolve, 20));
    await expect(read(post("x"), { limitBytes: 100, ...caller() })).rejects.toMatchObject({ code: "invalid_api_key" });
    expect((await read(post("x".repeat(40)), ofWorkspace("w"))).bytes.byteLength).toBe(40);
    await Promise.all(readings);
  });

  test("reserves no room for bodies that are announced by Content-Length but don't arrive", async () => {
    const read = createBodyReader(createBodyMemory(6_000), small);
    const silent = Array.from({ length: 5 }, () =>
      post(new ReadableStream(), { "content-type": "application/json", "content-length": "10" }),
    );
    const readings = silent.map((request) =>
      expect(read(request, { limitBytes: 100, ...caller() })).rejects.toMatchObject({ status: 408 }),
    );
    const honest = caller();
    const declared = post("x".repeat(5), { "content-type": "application/json", "content-length": "5" });
    expect((await read(declared, { limitBytes: 100, ...honest })).bytes.byteLength).toBe(5);
    expect(honest.asked()).toBe(0);
    await Promise.all(readings);
  });

  test("small bodies beyond their limits, per workspace and in total, get memory like large ones", async () => {
    const memory = createBodyMemory(6_000);
    const read = createBodyReader(memory, small);
    const ten = () => post("x".repeat(10));
    const ofStrangers = [await read(ten(), ofWorkspace("one")), await read(ten(), ofWorkspace("one"))];
    const ofOne = await Promise.all(Array.from({ length: 4 }, () => read(ten(), ofWorkspace("one"))));
    expect(ofOne.map(({ isLarge }) => isLarge)).toEqual(Array(4).fill(false));
    for (const length of [undefined, "10"]) {
      const request = () => new Request(ten(), length ? { headers: { "content-length": length } } : {});
      const beyond = await read(request(), ofWorkspace("one"));
      expect([beyond.isLarge, beyond.bytes.byteLength]).toEqual([true, 10]);
      beyond.release();
    }
    await expect(read(ten(), { limitBytes: 100, ...caller() })).rejects.toMatchObject({ code: "invalid_api_key" });
    const ofTwo = [await read(ten(), ofWorkspace("two")), await read(ten(), ofWorkspace("two"))];
    const ofThree = await read(ten(), ofWorkspace("three"));
    expect([...ofTwo, ofThree].map(({ isLarge }) => isLarge)).toEqual([false, false, true]);
    for (const body of [...ofOne, ...ofOne, ofThree]) body.release();
    expect((await read(ten(), ofWorkspace("one"))).isLarge).toBe(false);
    for (const body of [...ofStrangers, ...ofTwo]) body.release();
    await memory.grant(6_000, { workspace: "other", signal: new AbortController().signal });
  });

  test("times out if the next bytes or the whole body take too long", async () => {
    const read = createBodyReader(createBodyMemory(6_000), small);
    const silent = trickle();
    await expect(read(silent.request, ofWorkspace("w"))).rejects.toMatchObject({
      code: "invalid_request",
      status: 408,
    });
    expect(silent.cancelled()).toBe(true);
    const slow = trickle();
    const timer = setInterval(() => slow.send(1), 50);
    await expect(read(slow.request, ofWorkspace("w"))).rejects.toMatchObject({ status: 408 });
    clearInterval(timer);
    const ready = trickle();
    const reading = read(ready.request, ofWorkspace("w"));
    ready.send(5);
    setTimeout(ready.close, 100);
    expect((await reading).bytes.byteLength).toBe(5);
  });
});

describe("Waiting for memory", () => {
  const kibibyte = 1024;
  /** The memory for one body of 100 KiB. */
  const full = 6 * 100 * kibibyte;
  const upTo = (limitBytes: number, workspace = "w") => ({ limitBytes, ...caller(workspace) });
  const large = (headers: Record<string, string> = {}) => {
    const body = trickle();
    return { ...body, request: new Request(body.request, { headers }) };
  };
  const settle = () => vi.advanceTimersByTimeAsync(0);

  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(async () => {
    await vi.advanceTimersByTimeAsync(60_000);
    vi.useRealTimers();
  });

  test("a small body never waits, and a large one of a caller without a valid credential is refused at once", async () => {
    const memory = createBodyMemory(full);
    const read = createBodyReader(memory);
    await memory.grant(full, { workspace: "other", signal: new AbortController().signal });
    expect((await read(post("x".repeat(64 * kibibyte)), upTo(100 * kibibyte))).bytes.byteLength).toBe(64 * kibibyte);
    const stranger = { limitBytes: 100 * kibibyte, ...caller() };
    for (const request of [large({ "content-length": "70000" }).request, post("x".repeat(70_000))]) {
      await expect(read(request, stranger)).rejects.toMatchObject({ code: "invalid_api_key" });
    }
  });

  test("a small body beyond the limits of small ones waits up to ten seconds before it gets 503", async () => {
    const memory = createBodyMemory(full);
    const read = createBodyReader(memory, { ...small, uncheckedAll: 0, workspaceAll: 0 });
    const other = await memory.grant(full, { workspace: "other", signal: new AbortController().signal });
    const refused = expect(read(post("x"), upTo(10))).rejects.toMatchObject({
      code: "service_unavailable",
      status: 503,
    });
    await vi.advanceTimersByTimeAsync(9_900);
    const later = read(post("x"), upTo(10, "later"));
    await vi.advanceTimersByTimeAsync(200);
    await refused;
    other.release();
    expect((await later).bytes.byteLength).toBe(1);
  });

  test.for([
    ["with Content-Length, reads nothing", { "content-length": String(70 * kibibyte) }, 0],
    ["without Content-Length, reads at most 64 KiB and the chunk after it", {}, 65],
  ] as const)("until its memory is granted, a body %s", async ([, headers, readAtMost]) => {
    const memory = createBodyMemory(full);
    const read = createBodyReader(memory);
    const other = await memory.grant(full, { workspace: "other", signal: new AbortController().signal });
    let sent = 0;
    const stream = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          if (sent === 70) return controller.close();
          sent += 1;
          controller.enqueue(new Uint8Array(kibibyte));
        },
      },
      { highWaterMark: 0 },
    );
    const reading = read(post(stream, headers), upTo(100 * kibibyte));
    await settle();
    expect(sent).toBeLessThanOrEqual(readAtMost);
    other.release();
    expect((await reading).bytes.byteLength).toBe(70 * kibibyte);
  });

  test("a body without Content-Length has memory for the path's limit, and for its own size once it has arrived", async () => {
    const memory = createBodyMemory(full);
    const read = createBodyReader(memory);
    const first = large();
    const reading = read(first.request, upTo(100 * kibibyte));
    first.send(70 * kibibyte);
    await settle();
    let hasOther = false;
    const other = memory.grant(6 * 30 * kibibyte, { workspace: "other", signal: new AbortController().signal });
    void other.then(() => (hasOther = true));
    await settle();
    expect(hasOther).toBe(false);
    first.close();
    await reading;
    await settle();
    expect(hasOther).toBe(true);
  });

  test("the time limits of a body stand still while it waits, and apply after that", async () => {
    const memory = createBodyMemory(full);
    const read = createBodyReader(memory);
    const other = await memory.grant(full, { workspace: "other", signal: new AbortController().signal });
    const body = large();
    const reading = read(body.request, upTo(100 * kibibyte));
    reading.catch(() => {});
    body.send(65 * kibibyte);
    await vi.advanceTimersByTimeAsync(9_900);
    other.release();
    await vi.advanceTimersByTimeAsync(9_900);
    body.send(kibibyte);
    await vi.advanceTimersByTimeAsync(600);
    body.send(kibibyte);
    await vi.advanceTimersByTimeAsync(100);
    await expect(reading).rejects.toMatchObject({ status: 408 });
    await memory.grant(full, { workspace: "other", signal: new AbortController().signal });
  });

  test("a body that fails returns its memory: too large, cut, or left by its client while it waits", async () => {
    const memory = createBodyMemory(full);
    const read = createBodyReader(memory);
    const tooLarge = large();
    const refused = expect(read(tooLarge.request, upTo(100 * kibibyte))).rejects.toMatchObject({ status: 413 });
    tooLarge.send(70 * kibibyte);
    tooLarge.send(31 * kibibyte);
    await refused;
    const cut = large({ "content-length": String(100 * kibibyte) });
    const failed = expect(read(cut.request, upTo(100 * kibibyte))).rejects.toMatchObject({ code: "invalid_request" });
    cut.send(kibibyte);
    await settle();
    cut.fail();
    await failed;
    const other = await memory.grant(full, { workspace: "other", signal: new AbortController().signal });
    const leaving = new AbortController();
    const request = post("x".repeat(70 * kibibyte), { "content-length": String(70 * kibibyte) });
    const left = read(new Request(request, { signal: leaving.signal }), upTo(100 * kibibyte));
    const gone = expect(left).rejects.toMatchObject({ code: "invalid_request" });
    await settle();
    leaving.abort();
    await gone;
    other.release();
    await memory.grant(full, { workspace: "other", signal: new AbortController().signal });
  });

  test("a body may be as large as the memory allows, even if the path allows more", async () => {
    const read = createBodyReader(createBodyMemory(full));
    const declared = (bytes: number) => post("x".repeat(bytes), { "content-length": String(bytes) });
    expect((await read(declared(100 * kibibyte), upTo(200 * kibibyte))).bytes.byteLength).toBe(100 * kibibyte);
    await expect(read(declared(100 * kibibyte + 1), upTo(200 * kibibyte))).rejects.toMatchObject({
      code: "payload_too_large",
      message: `The body may have ${100 * kibibyte} bytes at most.`,
    });
  });
});

describe("Parsing a body", () => {
  test("requires a JSON content type", () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"]) {
      expect(() => parseJson(post("{}", { "content-type": type }), new TextEncoder().encode("{}"))).toThrow(
        expect.objectContaining({ status: 415 }),
      );
    }
    const typed = post("{}", { "content-type": "Application/JSON; charset=utf-8" });
    expect(parseJson(typed, new TextEncoder().encode("{}"))).toEqual({});
  });

  test.for(["gzip", "X-Gzip", "deflate", "br", "zstd", "compress", "identity, gzip", "utf-8, br"])(
    "refuses the content coding %s with 415",
    (coding) => {
      const coded = post("{}", { "content-type": "application/json", "content-encoding": coding });
      expect(() => parseJson(coded, new TextEncoder().encode("{}"))).toThrow(
        expect.objectContaining({
          code: "invalid_request",
          status: 415,
          message: expect.stringContaining("Content-Encoding"),
        }),
      );
    },
  );

  test.for(["identity", "Identity", "", "utf-8", "x"])("accepts the content coding %j", (coding) => {
    const plain = post("{}", { "content-type": "application/json", "content-encoding": coding });
    expect(parseJson(plain, new TextEncoder().encode("{}"))).toEqual({});
  });

  test.for(["", "{", "nope", '{"a":1,}', '"\u0000"', "NaN"])("rejects the body %j as invalid JSON", (text) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ code: "invalid_json" }));
  });

  test("rejects invalid UTF-8 as invalid JSON", () => {
    const bytes = Uint8Array.of(0x22, 0xff, 0xfe, 0x22);
    expect(() => parseJson(post(bytes), bytes)).toThrow(expect.objectContaining({ code: "invalid_json" }));
  });

  test.for(['{"a":"\\ud800"}', '{"a":["x\\udc00y"]}', '{"\\ud83e":1}', '{"a":"\\u0000"}', '{"a\\u0000":1}'])(
    "rejects the body %s",
    (text) => {
      expect(() => parse(text)).toThrow(expect.objectContaining({ code: "invalid_request", status: 400 }));
    },
  );

  test("accepts whole surrogate pairs and escaped backslashes in a body", () => {
    expect(parse('{"a":"\\ud83e\\udd8a","b":"\\\\u0000"}')).toEqual({ a: "🦊", b: "\\u0000" });
  });

  test("accepts 64 levels of nesting in a body and no more", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(() => parse(nested(65))).not.toThrow();
    expect(() => parse(nested(66))).toThrow(expect.objectContaining({ code: "invalid_request" }));
    expect(() => parse(nested(200_000))).toThrow(expect.objectContaining({ status: 400 }));
  });

  test("accepts 30,000 values for each MiB of a body and no more, ignoring the contents of strings", () => {
    const list = (values: number, padding = "") => `["[{,\\\\\\"[,${padding}"${",{}".repeat(values - 2)}]`;
    expect(parse(list(15_001))).toHaveLength(15_000);
    expect(() => parse(`["${",[{".repeat(200_000)}"]`)).not.toThrow();
    expect(() => parse(list(15_002))).toThrow(expect.objectContaining({ code: "invalid_request" }));
    const text = "x".repeat(3 * 1024 * 1024);
    expect(parse(list(45_001, text))).toHaveLength(45_000);
    const image = "x".repeat(20 * 1024 * 1024);
    expect(parse(list(120_001, image))).toHaveLength(120_000);
    expect(() => parse(list(120_002, image))).toThrow(expect.objectContaining({ code: "invalid_request" }));
    expect(() => parse(list(49_500, text))).toThrow(expect.objectContaining({ code: "invalid_request" }));
  });

  const message = { role: "user", content: [{ type: "text", text: "Where is it?" }] };
  const property = (n: number) => [`p${n}`, { type: "string" }] as const;
  const parameters = {
    type: "object",
    properties: Object.fromEntries(Array.from({ length: 40 }, (_, n) => property(n))),
  };
  test.for([
    ["2,700 short messages with content parts", { messages: Array(2_700).fill(message) }],
    ["350 KB of tool schemas", { tools: Array(310).fill({ type: "function", function: { name: "f", parameters } }) }],
  ] as const)("accepts %s", ([, body]) => {
    expect(parse(JSON.stringify(body))).toEqual(body);
  });

  test("accepts as many plain numbers in lists as a surface allows and no more, apart from other values", () => {
    const read = (text: string) => {
      const bytes = new TextEncoder().encode(text);
      return parseJson(post(bytes), bytes, { maxNumbers: 200_000 });
    };
    // LangChain's OpenAIEmbeddings sends a batch as lists of tokens.
    const batch = { input: Array(95).fill(Array(2_000).fill(1_539)) };
    expect(read(JSON.stringify(batch))).toEqual(batch);
    expect(read(JSON.stringify(Array(200_000).fill(1), null, 1))).toHaveLength(200_000);
    for (const text of [
      JSON.stringify(Array(200_001).fill(1)),
      ...["-1", "1.5", "1e3", "1234567890123456", "1 ", "true", "{}"].map((each) => `[${`${each},`.repeat(30_001)}1]`),
    ]) {
      expect(() => read(text)).toThrow(expect.objectContaining({ code: "invalid_request" }));
    }
  });

  test("accepts 5,000 members in each object and no more, in lists and nested objects", () => {
    const object = (members: number) => `{${Array.from({ length: members }, (_, n) => `"k${n}":1`).join()}}`;
    expect(() => parse(`[${object(5_000)},{"a":${object(4_000)}}]`)).not.toThrow();
    for (const text of [object(5_001), `[{"a":${object(5_001)}}]`]) {
      expect(() => parse(text)).toThrow(expect.objectContaining({ code: "invalid_request" }));
    }
  });
});
