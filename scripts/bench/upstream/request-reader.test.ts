import { expect, test } from "vitest";
import { createRequestReader } from "./request-reader.ts";

const post = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
const get = "GET /calls HTTP/1.1\r\nHost: x\r\n\r\n";

test("the request reader emits whole requests no matter how their bytes are split", () => {
  const bytes = Buffer.from(post + get + post);
  for (const size of [1, 7, 40, bytes.length]) {
    const read: string[] = [];
    const push = createRequestReader(({ method, path, body }) => read.push(`${method} ${path} ${body}`));
    for (let from = 0; from < bytes.length; from += size) push(bytes.subarray(from, from + size));
    expect(read).toEqual(["POST /v1/chat/completions hello", "GET /calls ", "POST /v1/chat/completions hello"]);
  }
});

test("the request reader refuses a chunked body instead of misreading it", () => {
  const push = createRequestReader(() => {});
  expect(() => push(Buffer.from("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))).toThrow("chunks");
});
