import { hostname } from "node:os";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { AgentModel } from "./agent-settings.ts";
import { type ConnectOptions, type Tool, toolNames, tools } from "./arguments.ts";
import { configure, unconfigure } from "./configure.ts";
import { type Envelope, envelopeSchema } from "./envelopes.ts";
import { Failure } from "./failure.ts";
import { requireLogin } from "./login.ts";
import { callApi, isSafeAddress } from "./platform.ts";
import { withLock } from "./private-files.ts";
import type { Connection, Login, Store } from "./store.ts";
import { chooseWorkspace } from "./workspaces.ts";

const connectResponseSchema = z.union([
  // Until 0.5.0: platforms of release 0.3.0 have no envelopes.
  z.object({
    state: z.literal("connected"),
    connection: z.object({ id: z.string(), envelope: envelopeSchema.nullish() }),
  }),
  z.object({ state: z.literal("requested") }),
]);
const connectionListSchema = z.object({
  connections: z.array(
    z.object({ id: z.string(), state: z.enum(["connected", "revoked"]), envelope: envelopeSchema.nullish() }),
  ),
});
/** The key is printed for an agent, and the address is written into its configuration. */
const issuedKeySchema = z.object({
  secret: z.string().regex(/^ttr_ai_[\w-]{1,256}$/),
  expiresAt: z.iso.datetime({ offset: true }),
  gatewayUrl: z.string().refine(isSafeAddress),
});
const models = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      platform: z.object({
        endpoints: z.array(z.string()),
        context_window: z.number().nullish(),
        output_limit: z.number().nullish(),
        default_output_limit: z.number().nullish(),
      }),
    }),
  ),
});

/** The endpoint that each agent calls. An agent can use only the models that its endpoint serves. */
const endpoints: Readonly<Record<Tool, string>> = {
  claude: "/v1/messages",
  codex: "/v1/responses",
  opencode: "/v1/chat/completions",
};

/**
 * A key is renewed if it expires within this time. opencode reads its key only once, at its start, so it needs a key
 * that lasts for hours.
 */
const renewBeforeMs: Readonly<Record<Tool, number>> = {
  claude: 30 * 60_000,
  codex: 30 * 60_000,
  opencode: 7 * 3_600_000,
};

/**
 * Connects an agent to a workspace and writes its configuration.
 * @throws Failure, for example if a key manager must approve the connection first, or a limit is open already
 */
export function connect(
  store: Store,
  { tool, workspace: requested, model, limit }: ConnectOptions,
): Promise<{ connection: Connection; file: string; isChanged: boolean; models: string[]; envelope: Envelope | null }> {
  return withLock(store.folder, async () => {
    const login = await requireLogin(store);
    const previous = (await store.readConnections())[tool];
    const workspace = await chooseWorkspace(login, { requested, connectedId: previous?.workspaceId });
    const token = login.accessToken;
    const agents = agentsUrl(login, workspace.id);
    const host = hostname().slice(0, 64) || "computer";
    const answer = await callApi(agents, {
      token,
      method: "POST",
      body: { tool, host, ...(limit && { envelope: { limitUsd: limit.usd, maxCalls: limit.calls } }) },
      schema: connectResponseSchema,
    });
    if (answer.state === "requested") {
      const page = `${login.url}/workspaces/${workspace.id}/ai/keys`;
      throw new Failure(
        "refused",
        `You can’t create API keys in ${workspace.name}. A member who manages them has your request at ${page}. Run this again once it is approved.`,
      );
    }
    const key = await callApi(`${agents}/${answer.connection.id}/keys`, {
      token,
      method: "POST",
      schema: issuedKeySchema,
    });
    const offered = usableModels(
      tool,
      await callApi(`${key.gatewayUrl}/v1/models`, { token: key.secret, schema: models }),
    );
    const names = offered.map(({ id }) => id);
    if (model !== undefined && !names.includes(model)) {
      const others = names.length > 0 ? `It has: ${names.join(", ")}.` : "It has none.";
      throw new Failure(
        "refused",
        `${workspace.name} has no model “${model}” that ${toolNames[tool]} can use. ${others}`,
      );
    }
    const connection: Connection = {
      url: login.url,
      workspaceId: workspace.id,
      workspaceName: workspace.name,
      connectionId: answer.connection.id,
      gatewayUrl: key.gatewayUrl,
      keyExpiresAt: Date.parse(key.expiresAt),
      configuration: previous?.configuration ?? null,
    };
    await store.writeKey(tool, key.secret);
    await store.writeConnection(tool, connection);
    const facts = {
      gatewayUrl: key.gatewayUrl,
      helper: buildTokenCommand(tool),
      keyFile: store.keyFile(tool),
      model,
      models: offered,
    };
    const { isChanged, ...configuration } = await configure(tool, { facts, previous: connection.configuration });
    await store.writeConnection(tool, { ...connection, configuration });
    if (previous && previous.url === login.url && previous.connectionId !== connection.connectionId) {
      await revokeConnection(login, previous).catch(() => {});
    }
    const envelope = answer.connection.envelope ?? null;
    return { connection, file: configuration.file, isChanged, models: names, envelope };
  });
}

/**
 * Returns a valid key of an agent, renewed if it expires soon. Without a network, returns the existing key until it
 * expires.
 * @throws Failure if the agent is not connected, the connection was revoked, or the sign-in has ended
 */
export function readToken(store: Store, requestedTool: Tool | undefined): Promise<string> {
  return withLock(store.folder, async () => {
    const connections = await store.readConnections();
    const tool = requestedTool ?? onlyTool(Object.keys(connections) as Tool[]);
    const connection = connections[tool];
    if (!connection) throw createNotConnectedFailure(tool);
    const key = await store.readKey(tool);
    const remainingMs = connection.keyExpiresAt - Date.now();
    try {
      const login = await requireLogin(store);
      await requireConnected(store, { tool, connection, login });
      if (key && remainingMs > renewBeforeMs[tool]) return key;
      return await renew(store, { tool, connection, login });
    } catch (error) {
      if (key && remainingMs > 0 && error instanceof Failure && error.kind === "unreachable") return key;
      throw error;
    }
  });
}

/**
 * Returns the models that are available at the endpoint that an agent calls. Those with a default output limit of their
 * own come first, because agents state no limit.
 */
export function usableModels(tool: Tool, { data }: z.input<typeof models>): AgentModel[] {
  const hasDefault = ({ platform }: (typeof data)[number]) => platform.default_output_limit != null;
  return data
    .filter(({ platform }) => platform.endpoints.includes(endpoints[tool]))
    .toSorted((one, other) => Number(hasDefault(other)) - Number(hasDefault(one)))
    .map(({ id, platform: { context_window: context, output_limit: output } }) =>
      context && output ? { id, limits: { context, output } } : { id },
    );
}

/** Revokes an agent's keys and removes the agent's configuration. @returns whether the platform revoked the keys */
export function disconnect(store: Store, tool: Tool): Promise<{ isRevoked: boolean }> {
  return withLock(store.folder, async () => {
    const connection = (await store.readConnections())[tool];
    if (!connection) throw createNotConnectedFailure(tool);
    const isRevoked = await requireLogin(store)
      .then((login) => revokeConnection(login, connection))
      .then(
        () => true,
        () => false,
      );
    if (connection.configuration) await unconfigure(connection.configuration);
    await store.deleteKey(tool);
    await store.writeConnection(tool, null);
    return { isRevoked };
  });
}

/** Returns the current envelopes of the connections that a login made in a workspace, by the connections' ids. */
export async function listEnvelopes(login: Login, workspaceId: string): Promise<Map<string, Envelope>> {
  const connections = await listConnections(login, workspaceId);
  return new Map(connections.flatMap(({ id, envelope }) => (envelope ? [[id, envelope]] : [])));
}

async function listConnections(login: Login, workspaceId: string) {
  const url = agentsUrl(login, workspaceId);
  return (await callApi(url, { token: login.accessToken, schema: connectionListSchema })).connections;
}

async function requireConnected(
  store: Store,
  { tool, connection, login }: { tool: Tool; connection: Connection; login: Login },
): Promise<void> {
  const connections = await listConnections(login, connection.workspaceId);
  const found = connections.find(({ id }) => id === connection.connectionId);
  if (found?.state === "connected" && connection.url === login.url) return;
  await store.deleteKey(tool);
  const reason = found
    ? "This connection was revoked in the workspace’s API keys."
    : `${toolNames[tool]} was connected by an earlier sign-in.`;
  throw new Failure("gone", `${reason} To connect again, run: gatehouse connect ${tool}`);
}

async function renew(
  store: Store,
  { tool, connection, login }: { tool: Tool; connection: Connection; login: Login },
): Promise<string> {
  const url = `${agentsUrl(login, connection.workspaceId)}/${connection.connectionId}/keys`;
  const key = await callApi(url, { token: login.accessToken, method: "POST", schema: issuedKeySchema });
  await store.writeKey(tool, key.secret);
  await store.writeConnection(tool, { ...connection, keyExpiresAt: Date.parse(key.expiresAt) });
  return key.secret;
}

async function revokeConnection(login: Login, { workspaceId, connectionId }: Connection): Promise<void> {
  const url = `${agentsUrl(login, workspaceId)}/${connectionId}`;
  await callApi(url, { token: login.accessToken, method: "DELETE", schema: z.unknown() });
}

function agentsUrl({ url }: Login, workspaceId: string): string {
  return `${url}/api/v1/workspaces/${workspaceId}/ai/agents`;
}

function buildTokenCommand(tool: Tool): [string, ...string[]] {
  // The package has main.js, the checkout main.ts.
  const main = new URL(`./main${extname(import.meta.url)}`, import.meta.url);
  return [process.execPath, fileURLToPath(main), "token", tool];
}

function onlyTool(connectedTools: readonly Tool[]): Tool {
  const [only, ...others] = connectedTools;
  if (only === undefined) throw new Failure("usage", "No agent is connected. Run: gatehouse connect claude");
  if (others.length > 0) throw new Failure("usage", `Name the agent: gatehouse token ${tools.join("|")}`);
  return only;
}

function createNotConnectedFailure(tool: Tool): Failure {
  return new Failure("refused", `${toolNames[tool]} isn’t connected. Run: gatehouse connect ${tool}`);
}
