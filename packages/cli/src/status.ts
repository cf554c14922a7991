import { z } from "zod";
import { type Tool, toolNames } from "./arguments.ts";
import { Failure } from "./failure.ts";
import { callApi } from "./platform.ts";
import type { Connection, Store } from "./store.ts";

const keyDetailsSchema = z.object({
  budgets: z.array(
    z.object({ scope: z.string(), limitUsd: z.number().nullable(), remainingUsd: z.number().nullable() }),
  ),
  spent: z.object({ costUsd: z.number().nullable() }),
});
type KeyDetails = z.infer<typeof keyDetailsSchema>;

/** Describes the sign-in and each connected agent, one line for each. */
export async function describeStatus(store: Store, now = Date.now()): Promise<string[]> {
  const login = await store.readLogin();
  const connections = Object.entries(await store.readConnections()) as [Tool, Connection][];
  const signedIn = login ? `Signed in to ${login.url} as ${login.account}.` : "Not signed in. Run: gatehouse login";
  if (connections.length === 0) return [signedIn, "No agent is connected. Run: gatehouse connect claude"];
  const lines = connections.map(async ([tool, connection]) => {
    const facts = await describeConnection(connection, { key: await store.readKey(tool), tool, now });
    return `${toolNames[tool]} in ${connection.workspaceName}: ${facts}`;
  });
  return [signedIn, ...(await Promise.all(lines))];
}

async function describeConnection(
  { gatewayUrl, keyExpiresAt }: Connection,
  { key, tool, now }: { key: string | null; tool: Tool; now: number },
): Promise<string> {
  if (!key) return `no key. Run: gatehouse connect ${tool}`;
  if (keyExpiresAt <= now) return "the key has expired; the next call gets a new one.";
  try {
    const answer = await callApi(`${gatewayUrl}/v1/key`, { token: key, schema: keyDetailsSchema });
    return `${[...describeSpending(answer), `key expires in ${durationText(keyExpiresAt - now)}`].join("; ")}.`;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.kind === "signed-out") return `the key was revoked. Run: gatehouse connect ${tool}`;
    return error.message;
  }
}

/** Describes the costs of this UTC month and the remaining budgets. Amounts are null if the workspace hides them. */
export function describeSpending({ spent, budgets }: KeyDetails): string[] {
  const remaining = budgets.flatMap(({ scope, limitUsd, remainingUsd }) =>
    limitUsd === null || remainingUsd === null
      ? []
      : [`${usd(Math.max(0, remainingUsd))} of ${usd(limitUsd)} left (${scope} budget)`],
  );
  return [
    spent.costUsd === null ? "" : `${usd(spent.costUsd)} spent this month`,
    ...(remaining.length > 0 ? remaining : [budgets.length > 0 ? "budget amounts are hidden" : "no budget"]),
  ].filter(Boolean);
}

function usd(amount: number): string {
  return `$${amount.toFixed(amount !== 0 && amount < 0.01 ? 4 : 2)}`;
}

/** Formats a duration in hours and minutes, rounded down. */
export function durationText(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  const hours = Math.floor(minutes / 60);
  return hours > 0 ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}
