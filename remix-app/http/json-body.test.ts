import { describe, expect, test } from "vitest";
import { z } from "zod";
import { readJson } from "./json-body.ts";

const schema = z.object({ name: z.string() });

function read(body: string | Uint8Array<ArrayBuffer>, contentType: string | null) {
  const headers = new Headers(contentType === null ? {} : { "content-type": contentType });
  const request = new Request("http://localhost/", { method: "POST", body, headers });
  if (contentType === null) request.headers.delete("content-type");
  return readJson(request, { schema, requestId: "r1" });
}

const refused = async (reading: Promise<unknown>) => {
  const response = await reading.catch((thrown: unknown) => thrown);
  if (!(response instanceof Response)) throw new Error("It was taken.");
  return { status: response.status, body: await response.json() };
};

describe("a JSON body", () => {
  test.each(["application/json", "application/json; charset=utf-8", "Application/JSON"])(
    "reads a JSON body with content type %s",
    async (type) => {
      expect(await read('{"name":"Ada","more":1}', type)).toEqual({ name: "Ada" });
    },
  );

  test.each([null, "application/json"])(
    "reads an absent JSON body as an empty object (content type %s)",
    async (type) => {
      const headers = new Headers(type === null ? {} : { "content-type": type });
      const absent = () => new Request("http://localhost/", { method: "POST", headers });
      const optional = z.strictObject({ name: z.string().optional() });
      expect(await readJson(absent(), { schema: optional, requestId: "r1" })).toEqual({});
      expect(await refused(readJson(absent(), { schema, requestId: "r1" }))).toMatchObject({
        status: 400,
        body: { param: "name" },
      });
    },
  );

  test.each([
    null,
    "text/plain",
    "application/jsonp",
    "application/x-www-form-urlencoded",
    "text/plain; application/json",
  ])("refuses a JSON body with content type %s", async (type) => {
    expect(await refused(read('{"name":"Ada"}', type))).toMatchObject({
      status: 415,
      body: {
        code: "UNSUPPORTED_MEDIA_TYPE",
        detail: "Send the body as JSON, with Content-Type: application/json.",
        requestId: "r1",
      },
    });
  });

  test.each(["", "{", "null", "[]", '"name"', '{"name":1}', `${"[".repeat(60_000)}`, Uint8Array.of(0xff, 0xfe)])(
    "refuses an invalid JSON body with 400",
    async (body) => {
      expect(await refused(read(body, "application/json"))).toMatchObject({ status: 400 });
    },
  );

  test("names the unknown field of a refused JSON body", async () => {
    const strict = z.strictObject({ name: z.string(), inner: z.strictObject({}).optional() });
    const readStrictly = (body: string) => {
      const headers = { "content-type": "application/json" };
      const request = new Request("http://localhost/", { method: "POST", body, headers });
      return refused(readJson(request, { schema: strict, requestId: "r1" }));
    };
    expect(await readStrictly('{"name":"Ada","nmae":1}')).toMatchObject({
      status: 400,
      body: { param: "nmae", detail: "Unknown field: “nmae”." },
    });
    expect((await readStrictly('{"name":"Ada","inner":{"x":1}}')).body.param).toBe("inner.x");
    expect((await readStrictly("[]")).body.detail).toBe("The body doesn’t match the schema of this call.");
    expect((await readStrictly("{")).body.detail).toBe("The body couldn’t be read as JSON.");
  });

  test("names the invalid field of a refused JSON body", async () => {
    expect(await refused(read('{"name":1}', "application/json"))).toMatchObject({ body: { param: "name" } });
  });

  // Postgres refuses both in text and in jsonb (RFC 8259 section 8.2 leaves lone surrogates to the reader).
  test.each([
    '{"name":"a\\u0000"}',
    '{"name":"\\ud800"}',
    '{"name":"\\udc00\\ud800"}',
    '{"name":"a","more":["\\u0000"]}',
    '{"name":"a","\\ud800":1}',
  ])("refuses the JSON body %s with 400, because databases refuse its text", async (body) => {
    expect(await refused(read(body, "application/json"))).toMatchObject({ status: 400 });
  });

  test("accepts a JSON body with surrogate pairs", async () => {
    expect(await read('{"name":"\\ud83e\\udd8a"}', "application/json")).toEqual({ name: "🦊" });
  });

  test.each([
    ["10,000 values", (count: number) => `{"name":"a","more":[${"0,".repeat(count - 4)}0]}`, 10_000],
    ["32 levels", (count: number) => `{"name":"a","more":${"[".repeat(count - 1)}${"]".repeat(count - 1)}}`, 32],
    [
      "1,000 members in an object",
      (count: number) => `{"name":"a",${Array.from({ length: count - 1 }, (_, n) => `"k${n}":0`).join()}}`,
      1_000,
    ],
  ])("accepts a JSON body with %s, and refuses one with more", async (_, make, limit) => {
    expect(await read(make(limit), "application/json")).toEqual({ name: "a" });
    expect(await refused(read(make(limit + 1), "application/json"))).toMatchObject({ status: 400 });
  });
});
