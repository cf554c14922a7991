import { describe, expect, test } from "vitest";
import { maxBodyBytes, readLimitedBody } from "./body-limit.ts";

function streamed(bytes: number): Request {
  let left = bytes;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const size = Math.min(left, 10_000);
      left -= size;
      if (size === 0) controller.close();
      else controller.enqueue(new Uint8Array(size));
    },
  });
  return new Request("http://localhost/", { method: "POST", body, duplex: "half" } as RequestInit);
}

describe("a request body", () => {
  test("accepts a request body of 64 KiB and refuses a body that is one byte longer", async () => {
    expect((await readLimitedBody(streamed(maxBodyBytes)))?.byteLength).toBe(65_536);
    expect(await readLimitedBody(streamed(maxBodyBytes + 1))).toBeNull();
  });

  test("refuses a body without reading it if its declared length exceeds the limit", async () => {
    const request = new Request("http://localhost/", {
      method: "POST",
      body: "short",
      headers: { "content-length": String(maxBodyBytes + 1) },
    });
    expect(await readLimitedBody(request)).toBeNull();
    expect(request.bodyUsed).toBe(false);
  });

  test("counts a body's bytes even if its declared length is within the limit", async () => {
    const request = streamed(maxBodyBytes + 1);
    request.headers.set("content-length", "1");
    expect(await readLimitedBody(request)).toBeNull();
  });

  test("refuses a body if its declared length is not a number", async () => {
    const request = new Request("http://localhost/", { method: "POST", body: "x", headers: { "content-length": "x" } });
    expect(await readLimitedBody(request)).toBeNull();
  });

  test.each(["GET", "HEAD"])("does not read the body of a %s request", async (method) => {
    const request = new Request("http://localhost/", { method });
    let asked = false;
    Object.defineProperty(request, "body", {
      get() {
        asked = true;
        return null;
      },
    });
    expect((await readLimitedBody(request))?.byteLength).toBe(0);
    expect(asked).toBe(false);
  });

  test("returns an empty body for a request without a body", async () => {
    expect((await readLimitedBody(new Request("http://localhost/", { method: "POST" })))?.byteLength).toBe(0);
  });
});
