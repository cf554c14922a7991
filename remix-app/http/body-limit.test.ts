import { describe, expect, test } from "vitest";
import { maxBodyBytes, readBody, readLimitedBody } from "./body-limit.ts";

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

  const refusal = (request: Request, maxBytes?: number) =>
    readBody(request, { requestId: "r", ...(maxBytes && { maxBytes }) }).then(
      () => null,
      async (thrown: Response) => [thrown.status, ((await thrown.json()) as { detail: string }).detail],
    );

  test("a route can raise the limit of a body, which the refusal names", async () => {
    expect(await refusal(streamed(maxBodyBytes))).toBeNull();
    expect(await refusal(streamed(maxBodyBytes + 1))).toEqual([413, "Send at most 64 KiB."]);
    expect(await refusal(streamed(128 * 1024), 128 * 1024)).toBeNull();
    expect(await refusal(streamed(128 * 1024 + 1), 128 * 1024)).toEqual([413, "Send at most 128 KiB."]);
  });

  // RFC 9110 section 8.4: codings are listed in the order in which they were applied, and names ignore case.
  test.each([
    "gzip",
    "gzip, gzip",
    "identity, gzip",
    "GZIP",
    "x-gzip",
    "deflate",
    "br",
    "zstd",
    "compress",
    "utf-8, gzip",
  ])("refuses a body with Content-Encoding: %s without reading it", async (coding) => {
    const request = streamed(1);
    request.headers.set("content-encoding", coding);
    expect(await refusal(request)).toEqual([415, "Send the body without Content-Encoding."]);
    expect(request.bodyUsed).toBe(false);
  });

  test.each(["identity", "", "utf-8", "UTF-8", "x"])("reads a body with Content-Encoding: %j", async (coding) => {
    const request = streamed(1);
    request.headers.set("content-encoding", coding);
    expect(await refusal(request)).toBeNull();
  });
});
