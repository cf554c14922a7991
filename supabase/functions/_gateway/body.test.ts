import { describe, expect, test } from "vitest";
import { createBodyReader, parseJson } from "./body.ts";

const post = (body: BodyInit, headers: Record<string, string> = { "content-type": "application/json" }) =>
  new Request("http://gateway/", { method: "POST", body, headers, duplex: "half" } as RequestInit);
const parse = (text: string) => parseJson(post(text), new TextEncoder().encode(text));

describe("reading", () => {
  const readBody = createBodyReader();

  test("takes the limit and not one byte more", async () => {
    expect((await readBody(post("x".repeat(8)), 8)).bytes.byteLength).toBe(8);
    await expect(readBody(post("x".repeat(9)), 8)).rejects.toMatchObject({ code: "payload_too_large", status: 413 });
  });

  test("counts, whatever the length was said to be", async () => {
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(1_000)),
      cancel: () => {
        cancelled = true;
      },
    });
    await expect(readBody(post(endless), 10_000)).rejects.toMatchObject({ code: "payload_too_large" });
    expect(cancelled).toBe(true);
  });

  test("of nothing is nothing", async () => {
    expect((await readBody(new Request("http://gateway/", { method: "POST" }), 8)).bytes.byteLength).toBe(0);
  });

  test("holds so much at once, and more when something was let go", async () => {
    const readFew = createBodyReader(20);
    const first = await readFew(post("x".repeat(12)), 100);
    await expect(readFew(post("x".repeat(9)), 100)).rejects.toMatchObject({ code: "service_unavailable", status: 503 });
    const second = await readFew(post("x".repeat(8)), 100);
    first.release();
    first.release();
    second.release();
    expect((await readFew(post("x".repeat(20)), 100)).bytes.byteLength).toBe(20);
  });
});

describe("parsing", () => {
  test("wants JSON by its type", () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"]) {
      expect(() => parseJson(post("{}", { "content-type": type }), new TextEncoder().encode("{}"))).toThrow(
        expect.objectContaining({ status: 415 }),
      );
    }
    const typed = post("{}", { "content-type": "Application/JSON; charset=utf-8" });
    expect(parseJson(typed, new TextEncoder().encode("{}"))).toEqual({});
  });

  test.for(["", "{", "nope", '{"a":1,}', '"\u0000"', "NaN"])("%j is no JSON", (text) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ code: "invalid_json" }));
  });

  test("what is not UTF-8 is no JSON", () => {
    const bytes = Uint8Array.of(0x22, 0xff, 0xfe, 0x22);
    expect(() => parseJson(post(bytes), bytes)).toThrow(expect.objectContaining({ code: "invalid_json" }));
  });

  test.for(['{"a":"\\ud800"}', '{"a":["x\\udc00y"]}', '{"\\ud83e":1}', '{"a":"\\u0000"}', '{"a\\u0000":1}'])(
    "%s is refused",
    (text) => {
      expect(() => parse(text)).toThrow(expect.objectContaining({ code: "invalid_request", status: 400 }));
    },
  );

  test("whole surrogate pairs and escaped backslashes are fine", () => {
    expect(parse('{"a":"\\ud83e\\udd8a","b":"\\\\u0000"}')).toEqual({ a: "🦊", b: "\\u0000" });
  });

  test("nests 64 deep and no deeper", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(() => parse(nested(65))).not.toThrow();
    expect(() => parse(nested(66))).toThrow(expect.objectContaining({ code: "invalid_request" }));
    expect(() => parse(nested(200_000))).toThrow(expect.objectContaining({ status: 400 }));
  });
});
