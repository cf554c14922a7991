import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { createAppToken, createMember } from "../../../tests/gateway/tenant-callers.ts";

let tenant: GatewayTenant;
let gateway: InProcessGateway;
let credentials: Record<string, string>;
beforeAll(async () => {
  tenant = await createGatewayTenant();
  gateway = await openGateway();
  const member = await createMember(tenant);
  const { token } = await createAppToken(tenant, member);
  credentials = { key: tenant.key, "app token": token, session: member.accessToken };
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
});

const hello = { model: "demo-chat", messages: [{ role: "user" as const, content: "[[words=3]]" }] };
const ways: Record<string, (client: OpenAI, headers: Record<string, string>) => Promise<unknown>> = {
  whole: (client, headers) => client.chat.completions.create(hello, { headers }),
  streamed: async (client, headers) => {
    const stream = await client.chat.completions.create({ ...hello, stream: true }, { headers });
    for await (const _ of stream);
  },
};

describe.for(["key", "app token", "session"])(
  "database statements of a chat with this kind of credential: %s",
  (kind) => {
    test.for(Object.keys(ways))("a chat takes two database statements: %s", async (way) => {
      const workspace = { "X-Platform-Workspace-Id": tenant.workspaceId };
      const client = gateway.clientOf(credentials[kind] ?? "", workspace);
      const call = async (headers: Record<string, string> = {}) => {
        await ways[way]?.(client, headers);
        await gateway.settled();
      };
      // Opens the connection, so that only the statements of the next call are counted.
      await call();
      const { line } = gateway;
      const [flights, calls] = [line.flights(), line.calls().length];
      await call({ "idempotency-key": `${kind} ${way}` });
      expect(line.calls().slice(calls)).toEqual(["begin_runs", "settle_runs"]);
      expect(line.flights() - flights).toBe(2);
    });
  },
);
