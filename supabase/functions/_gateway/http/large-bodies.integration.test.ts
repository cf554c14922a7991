import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { createAiKey } from "../../_shared/ai-key.ts";

const limitBytes = 8 * 1024 * 1024;
let tenant: GatewayTenant;
let other: GatewayTenant;
beforeAll(async () => {
  [tenant, other] = await Promise.all([createGatewayTenant(), createGatewayTenant()]);
});
afterAll(() => Promise.all([tenant.close(), other.close()]));

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/**
 * Sends all but the last byte of a body.
 * @returns the answer, if the gateway gives one
 */
async function stall(key: string): Promise<{ answered: Promise<string> }> {
  const url = new URL(`${tenant.client.baseURL}/chat/completions`);
  const socket = connect({ host: url.hostname, port: Number(url.port) });
  sockets.push(socket);
  socket.on("error", () => {});
  const answered = once(socket, "data").then(([data]) => String(data).split("\r\n", 1)[0] ?? "");
  const head = [
    `POST ${url.pathname} HTTP/1.1`,
    `host: ${url.host}`,
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${limitBytes}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  await new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
    socket.write(Buffer.alloc(limitBytes - 1, 0x20), () => resolve());
    answered.then(() => resolve());
  });
  return { answered };
}

const ask = ({ client }: GatewayTenant, padding = 0) =>
  client.chat.completions.create({
    model: "demo-chat",
    messages: [{ role: "user", content: "hello" }],
    metadata: Object.fromEntries(Array.from({ length: padding }, (_, n) => [`k${n}`, "x".repeat(500)])),
  });

describe("endless request bodies", () => {
  test("endless request bodies from unknown callers get 401 immediately and block no other caller", {
    tags: "needs-stack-server",
  }, async () => {
    const { text: key } = await createAiKey();
    const stalled = await Promise.all(Array.from({ length: 6 }, () => stall(key)));
    for (const { answered } of stalled) expect(await answered).toContain(" 401 ");
    await expect(ask(tenant)).resolves.toMatchObject({ object: "chat.completion" });
  });

  test("endless request bodies from one tenant don't block other tenants", { tags: "needs-stack-server" }, async () => {
    await Promise.all(Array.from({ length: 4 }, () => stall(tenant.key)));
    await expect(ask(other)).resolves.toMatchObject({ object: "chat.completion" });
    await expect(ask(other, 1_000)).resolves.toMatchObject({ object: "chat.completion" });
    await expect(ask(tenant)).resolves.toMatchObject({ object: "chat.completion" });
  });
});

describe("a body that is refused before its end", () => {
  /**
   * Posts chunks without a Content-Length on a separate connection.
   * @returns the status line of the answer
   */
  async function post(key: string, chunks: number): Promise<string> {
    const url = new URL(`${tenant.client.baseURL}/chat/completions`);
    const socket = connect({ host: url.hostname, port: Number(url.port) }).on("error", () => {});
    sockets.push(socket);
    const answered = once(socket, "data").then(([data]) => String(data).split("\r\n", 1)[0] ?? "");
    const head = [
      `POST ${url.pathname} HTTP/1.1`,
      `host: ${url.host}`,
      `authorization: Bearer ${key}`,
      "content-type: application/json",
      "transfer-encoding: chunked",
    ];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    const chunk = Buffer.concat([Buffer.from("20000\r\n"), Buffer.alloc(0x20000, 0x20), Buffer.from("\r\n")]);
    for (let sent = 0; sent < chunks; sent++) socket.write(chunk);
    socket.write("0\r\n\r\n");
    return answered;
  }

  test.for([
    ["a stranger's", 3, 4, " 401 "],
    ["a tenant's body that is too large", 1, 65, " 413 "],
  ] as const)(
    "the rest of a refused request body affects no other call: %s",
    { tags: "needs-stack-server" },
    async ([whose, posts, chunks, status]) => {
      const key = whose === "a stranger's" ? (await createAiKey()).text : tenant.key;
      // This stream would break off if the process ended during the test.
      const stream = await tenant.client.chat.completions.create({
        model: "demo-chat",
        messages: [{ role: "user", content: "[[words=8]] [[pace=100]]" }],
        stream: true,
      });
      const answers = await Promise.all(Array.from({ length: posts }, () => post(key, chunks)));
      for (const answer of answers) expect(answer).toContain(status);
      let finished: unknown;
      for await (const { choices } of stream) finished = choices[0]?.finish_reason ?? finished;
      expect(finished).toBe("stop");
      await expect(ask(other)).resolves.toMatchObject({ object: "chat.completion" });
    },
  );
});

test("for a body with millions of values, the gateway returns 401 to an unknown caller and 400 to a tenant", {
  tags: "needs-stack-server",
}, async () => {
  const body = `{"a":[${"{},".repeat(2_700_000)}1]}`;
  const post = async (key: string) => {
    const answer = await fetch(`${tenant.client.baseURL}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body,
    });
    await answer.body?.cancel();
    return answer.status;
  };
  const { text: stranger } = await createAiKey();
  expect([await post(stranger), await post(tenant.key)]).toEqual([401, 400]);
});
