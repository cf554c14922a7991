import { z } from "zod";
import { listEnvelopes } from "./agents.ts";
import { type Tool, toolNames } from "./arguments.ts";
import { describeEnvelope, type Envelope, usd } from "./envelopes.ts";
import { Failure } from "./failure.ts";
import { requireLogin } from "./login.ts";
import { callApi } from "./platform.ts";
import { withLock } from "./private-files.ts";
import type { Connection, Store } from "./store.ts";

const keyDetailsSchema = z.object({
  budgets: z.array(
    z.object({
      scope: z.string(),
      // Until 0.5.0: platforms of 0.3.0 only have monthly budgets, and state neither window nor zone.
      window: z.string().default("month"),
      timeZone: z.string().default("UTC"),
      resetsAt: z.string().nullish(),
      limitUsd: z.number().nullable(),
      remainingUsd: z.number().nullable(),
    }),
  ),
  spent: z.object({ costUsd: z.number().nullable() }),
});
type KeyDetails = z.infer<typeof keyDetailsSchema>;

/** Describes the sign-in and each connected agent, one line for each, and one for the agent's limit if it has one. */
export async function describeStatus(store: Store, now = Date.now()): Promise<string[]> {
  const login = await store.readLogin();
  const connections = Object.entries(await store.readConnections()) as [Tool, Connection][];
  const signedIn = login ? `Signed in to ${login.url} as ${login.account}.` : "Not signed in. Run: gatehouse login";
  if (connections.length === 0) return [signedIn, "No agent is connected. Run: gatehouse connect claude"];
  const envelopes = await readEnvelopes(
    store,
    connections.map(([, connection]) => connection),
  );
  const lines = connections.map(async ([tool, connection]) => {
    const facts = await describeConnection(connection, { key: await store.readKey(tool), tool, now });
    const envelope = envelopes.get(connection.connectionId);
    return [
      `${toolNames[tool]} in ${connection.workspaceName}: ${facts}`,
      ...(envelope ? [`  Limit: ${describeEnvelope(envelope, connection)}`] : []),
    ];
  });
  return [signedIn, ...(await Promise.all(lines)).flat()];
}

/** Returns the envelopes of the connections by their ids. Empty without a sign-in or a network. */
async function readEnvelopes(store: Store, connections: readonly Connection[]): Promise<Map<string, Envelope>> {
  try {
    const login = await withLock(store.folder, () => requireLogin(store));
    const workspaceIds = connections.flatMap(({ url, workspaceId }) => (url === login.url ? [workspaceId] : []));
    const maps = await Promise.all([...new Set(workspaceIds)].map((id) => listEnvelopes(login, id)));
    return new Map(maps.flatMap((map) => [...map]));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return new Map();
  }
}

async function describeConnection(
  { gatewayUrl, keyExpiresAt }: Connection,
  { key, tool, now }: { key: string | null; tool: Tool; now: number },
): Promise<string> {
  if (!key) return `no key. Run: gatehouse connect ${tool}`;
  if (keyExpiresAt <= now) return "the key has expired; the next call gets a new one.";
  try {
    const answer = await callApi(`${gatewayUrl}/v1/key`, { token: key, schema: keyDetailsSchema });
    return `${[...describeSpending(answer, now), `key expires in ${durationText(keyExpiresAt - now)}`].join("; ")}.`;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.kind === "signed-out") return `the key was revoked. Run: gatehouse connect ${tool}`;
    return error.message;
  }
}

/** Describes the costs of this UTC month and the remaining budgets. Amounts are null if the workspace hides them. */
export function describeSpending({ spent, budgets }: KeyDetails, now = Date.now()): string[] {
  const remaining = budgets.flatMap((budget) =>
    budget.limitUsd === null || budget.remainingUsd === null
      ? []
      : [
          `${usd(Math.max(0, budget.remainingUsd))} of ${usd(budget.limitUsd)} left${describeWindow(budget, now)} (${budget.scope} budget)`,
        ],
  );
  return [
    spent.costUsd === null ? "" : `${usd(spent.costUsd)} spent this month`,
    ...(remaining.length > 0 ? remaining : [budgets.length > 0 ? "budget amounts are hidden" : "no budget"]),
  ].filter(Boolean);
}

/** Describes the window of a budget, and when it resets. Monthly UTC budgets, the default, need no words. */
function describeWindow({ window, timeZone, resetsAt }: KeyDetails["budgets"][number], now: number): string {
  if (window === "total") return " in total";
  if (window === "month" && timeZone === "UTC") return "";
  const words = window === "day" ? " today" : ` this ${window}`;
  return resetsAt ? `${words}, resets in ${durationText(Date.parse(resetsAt) - now)}` : words;
}

/** Formats a duration in days, or below two days in hours and minutes, rounded down. */
export function durationText(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) return `${Math.floor(hours / 24)} days`;
  return hours > 0 ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}
