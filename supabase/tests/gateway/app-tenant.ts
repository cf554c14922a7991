import { createApp } from "../../../scripts/test/apps.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "./tenant.ts";

type Answer = {
  status: number;
  headers: Headers;
  text: string;
  body: Record<string, unknown> & {
    error: { code: string; param: string | null; message: string; request_id: string };
  };
};
type Sent = { body?: unknown; method?: string; key?: string; headers?: Record<string, string | undefined> };

/** A caller of the running gateway whose key is bound to a registered external app. */
export type AppTenant = GatewayTenant & {
  appId: string;
  /** Calls a path under `/v1` with key and workspace header. An object body is sent as JSON, a string unchanged. */
  send: (path: string, sent?: Sent) => Promise<Answer>;
};

/** Creates a tenant with {@link createGatewayTenant}, registers an app, and binds the tenant's key to the app. */
export async function createAppTenant(): Promise<AppTenant> {
  const tenant = await createGatewayTenant();
  const { workspaceId, keyId, key: ownKey } = tenant;
  const app = await createApp({ kind: "external", scopes: ["workspace:session", "ai:use", "tts:use"], workspaceId });
  await tenant.db.query("update ai.keys set external_app_id = $2 where id = $1", [keyId, app.id]);

  async function send(path: string, { body, method, key = ownKey, headers = {} }: Sent = {}): Promise<Answer> {
    const given = {
      authorization: `Bearer ${key}`,
      "x-platform-workspace-id": workspaceId,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    };
    const response = await fetch(`${readStack().ai}/v1${path}`, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: Object.fromEntries(
        Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined),
      ),
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: text && JSON.parse(text) };
  }

  return { ...tenant, appId: app.id, send };
}
