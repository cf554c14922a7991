import { createClient } from "@supabase/supabase-js";
import type pg from "pg";
import { z } from "zod";
import { basicAuthorization } from "../../../remix-app/http/authorization.ts";
import type { Stack } from "../../test/stack.ts";
import type { Call } from "../gateway/call.ts";
import { ourTarget } from "../gateway/targets.ts";
import { benchPlan, createTenants } from "../gateway/tenants.ts";

/** Who calls: keys of many workspaces, one key with every limit, or one app token. */
export const callers = ["keys", "limited key", "app token"] as const;
export type Caller = (typeof callers)[number];

const label = "bench";
const budgetUsd = 1_000_000;

/**
 * Creates the callers on a stack of this or an earlier commit.
 * @param options.complain receives what the commit does not have
 */
export async function createCallers(
  client: pg.Client,
  options: { stack: Stack; workspaces: number; complain: (text: string) => void },
): Promise<Partial<Record<Caller, Call>>> {
  const { stack, workspaces, complain } = options;
  const { ownerId, keys } = await createTenants(client, { stack, count: workspaces + 1 });
  const [limited = "", ...plain] = keys;
  const missing = await addLimits(client, { key: limited, ownerId });
  if (missing.length > 0) complain(`Its limited key has no ${missing.join(", no ")}.`);
  const { call } = ourTarget(stack, plain);
  const token = await issueAppToken(client, stack).catch((error: Error) =>
    complain(`The app token is left out: ${error.message.slice(0, 300)}`),
  );
  const headers = { ...call.headers, "x-platform-workspace-id": stack.workspaceId };
  return {
    keys: call,
    "limited key": { ...call, authorizations: [`Bearer ${limited}`] },
    ...(token ? { "app token": { ...call, headers, authorizations: [`Bearer ${token}`] } } : {}),
  };
}

/**
 * Gives a key a label, and a budget to the key, its creator, its workspace and its label. None of them is reached.
 * @returns those that the commit does not have
 */
async function addLimits(client: pg.Client, { key, ownerId }: { key: string; ownerId: string }): Promise<string[]> {
  const { rows } = await client.query<{ id: string; workspace: string }>(
    "select id, workspace_id as workspace from ai.keys where lookup = $1",
    [key.split("_")[2]],
  );
  const [{ id, workspace } = { id: "", workspace: "" }] = rows;
  const limits: [string, string, unknown[]][] = [
    ["budget of the key", "select ai.set_budget('key', $1, $2, $3)", [id, workspace, budgetUsd]],
    ["budget of the workspace", "select ai.set_budget('workspace', $1, $1, $2)", [workspace, budgetUsd]],
    ["budget of the member", "select ai.set_budget('member', $1, $2, $3)", [ownerId, workspace, budgetUsd]],
    ["label of its own", "update ai.keys set entity_id = $2 where id = $1", [id, label]],
    [
      "budget of the label",
      "select ai.set_budget('label', ai.label_id($1), $2, $3, $1)",
      [label, workspace, budgetUsd],
    ],
  ];
  const missing: string[] = [];
  for (const [name, sql, values] of limits) await client.query(sql, values).catch(() => missing.push(name));
  return missing;
}

const mintAnswer = z.object({ token: z.string() });
const exchangeAnswer = z.object({ accessToken: z.string() });

/** Issues a token of the demo app to the demo account, in the demo workspace, which gets the bench's plan. */
async function issueAppToken(client: pg.Client, stack: Stack): Promise<string> {
  const { base, supabase, users, externalApp, workspaceId } = stack;
  await client.query("update public.workspaces set plan_id = $2 where id = $1", [workspaceId, benchPlan]);
  await client.query("delete from ai.workspace_policies where workspace_id = $1", [workspaceId]);
  const { auth } = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
  const { email = "", password = "" } = users.find(({ role }) => role === "user") ?? {};
  const { data, error } = await auth.signInWithPassword({ email, password });
  if (error) throw error;
  const send = async (path: string, { authorization, body }: { authorization: string; body: object }) => {
    const headers = { authorization, "content-type": "application/json" };
    const response = await fetch(new URL(path, base), { method: "POST", headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return response.json();
  };
  const { token } = mintAnswer.parse(
    await send("/api/v1/auth/cross-app-tokens", {
      authorization: `Bearer ${data.session.access_token}`,
      body: { targetApp: externalApp.name },
    }),
  );
  const exchanged = await send("/api/v1/auth/app-token/exchange", {
    authorization: basicAuthorization(externalApp),
    body: { token, workspaceId },
  });
  return exchangeAnswer.parse(exchanged).accessToken;
}
