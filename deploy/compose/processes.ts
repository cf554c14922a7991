import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createDataApi } from "@gatehousehq/local-stack/services/data-api/data-api";
import { functionsCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from "jose";
import { ensureBuild } from "../../scripts/start/build.ts";
import { composeFolder, readComposeFile } from "./compose-file.ts";
import { pushMigrations, startDatabase } from "./database.ts";
import { createComposeSettings } from "./settings.ts";

// Runs the services of compose.yaml as processes of this machine, with the same settings.

/** Real programs, by the variable that names them. Without one, a server of the local stack takes its place. */
export interface Programs {
  IDENTITY_BIN?: string | undefined;
  POSTGREST_BIN?: string | undefined;
  CADDY_BIN?: string | undefined;
}

export interface OneMachine {
  settings: Record<string, string>;
  dbUrl: string;
  mailbox: string;
  /** The last lines of each process's log. */
  logs: () => string;
  stop: () => Promise<void>;
}

const startLimitMs = 60_000;
const root = path.resolve(composeFolder, "../..");

/** The ports on which the services listen in their containers. That of the proxy is for email templates. */
const containerPorts = { db: 5432, auth: 9999, rest: 3000, mail: 587, gateway: 8080, web: 3000, proxy: 8080 } as const;
type ServiceName = keyof typeof containerPorts;
type Ports = Record<ServiceName | "app" | "api" | "mailbox" | "provider" | "admin", number>;

/** Starts everything in the order of compose.yaml, and applies the migrations. */
export async function startOneMachine(folder: string, programs: Programs): Promise<OneMachine> {
  const ports = await findPorts();
  const at = (name: keyof Ports) => `http://127.0.0.1:${ports[name]}`;
  const settings = await createComposeSettings({
    // Without a proxy of its own, the servers are their public addresses.
    app: programs.CADDY_BIN ? at("app") : at("web"),
    api: at("api"),
    smtp: "smtp://smtp.example.com",
    from: "Gatehouse <no-reply@example.com>",
  });
  const services = readComposeFile(settings);
  const environmentOf = (name: ServiceName) =>
    Object.fromEntries(
      Object.entries(services[name]?.environment ?? {}).map(([key, value]) => [key, localize(value, ports)]),
    );
  const children: ChildProcess[] = [];
  const logs = new Map<string, string>();
  const stops: (() => unknown)[] = [];

  function start(
    name: string,
    { command, args, env }: { command: string; args: string[]; env: Record<string, string> },
  ) {
    const { PATH = "", HOME = "/" } = process.env;
    const child = spawn(command, args, {
      cwd: root,
      env: { PATH, HOME, NODE_ENV: "production", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => logs.set(name, `${logs.get(name) ?? ""}${chunk}`.slice(-4_000)));
    children.push(child);
    return child;
  }
  async function startAndWait(name: string, options: Parameters<typeof start>[1] & { health: string }): Promise<void> {
    const child = start(name, options);
    for (const deadline = Date.now() + startLimitMs; ; await sleep(50)) {
      const answer = await fetch(options.health).catch(() => null);
      if (answer?.ok) return;
      if (child.exitCode !== null || Date.now() > deadline) throw new Error(`${name} does not run:\n${logs.get(name)}`);
    }
  }
  async function stop(): Promise<void> {
    const ended = children.map((child) => new Promise((resolve) => child.once("exit", resolve)));
    const running = children.map(({ exitCode }, nth) => (exitCode === null ? ended[nth] : undefined));
    for (const child of children) child.kill("SIGTERM");
    await Promise.all(running);
    for (const end of stops.reverse()) await end();
  }

  try {
    const database = await startDatabase(folder, { environment: environmentOf("db"), port: ports.db });
    stops.push(database.stop);
    const node = process.execPath;
    const stackScript = (name: string) => [path.join(root, `packages/local-stack/services/${name}/main.ts`)];
    await startAndWait("mail", {
      command: node,
      args: stackScript("mail"),
      env: {
        HOST: "127.0.0.1",
        SMTP_PORT: String(ports.mail),
        WEB_PORT: String(ports.mailbox),
        MAIL_DIR: path.join(folder, "mail"),
      },
      health: `${at("mailbox")}/api/healthz`,
    });
    const provider = { HOST: "127.0.0.1", PORT: String(ports.provider), PROVIDER_API_KEY: "provider-key" };
    await startAndWait("provider", {
      command: node,
      args: stackScript("provider"),
      env: provider,
      health: `${at("provider")}/healthz`,
    });
    if (!programs.CADDY_BIN) stops.push(await serveTemplates(ports.proxy));
    await ensureBuild({
      root,
      logFile: path.join(folder, "build.log"),
      adopt: (_, child) => children.push(child),
    });

    const authEnvironment = { ...environmentOf("auth"), GOTRUE_API_HOST: "127.0.0.1", PORT: String(ports.auth) };
    await startAndWait("auth", {
      ...(programs.IDENTITY_BIN
        ? { command: programs.IDENTITY_BIN, args: [] }
        : { command: node, args: stackScript("identity") }),
      env: {
        ...authEnvironment,
        // In its image, the migrations are in the working directory.
        ...(programs.IDENTITY_BIN && {
          GOTRUE_DB_MIGRATIONS_PATH: path.join(path.dirname(programs.IDENTITY_BIN), "migrations"),
        }),
      },
      health: `${at("auth")}/health`,
    });
    await pushMigrations((settings.SUPABASE_DB_URL ?? "").replace(":5432", `:${ports.db}`));

    const restEnvironment = environmentOf("rest");
    if (programs.POSTGREST_BIN) {
      await startAndWait("rest", {
        command: programs.POSTGREST_BIN,
        args: [],
        env: {
          ...restEnvironment,
          PGRST_SERVER_HOST: "127.0.0.1",
          PGRST_SERVER_PORT: String(ports.rest),
          PGRST_ADMIN_SERVER_PORT: String(ports.admin),
        },
        health: `${at("admin")}/ready`,
      });
    } else stops.push(await serveDataApi(restEnvironment, ports.rest));

    await startAndWait("gateway", {
      ...functionsCommand(root),
      env: {
        ...environmentOf("gateway"),
        HOST: "127.0.0.1",
        PORT: String(ports.gateway),
        // What an operator adds to providers.env.
        AI_PROVIDER_DEMO_KIND: "openai",
        AI_PROVIDER_DEMO_BASE_URL: `${at("provider")}/v1`,
        AI_PROVIDER_DEMO_API_KEY: provider.PROVIDER_API_KEY,
        DENO_NO_UPDATE_CHECK: "1",
      },
      health: `${at("gateway")}/readyz`,
    });
    await (programs.CADDY_BIN
      ? startCaddy(programs.CADDY_BIN)
      : startAndWait("proxy", {
          command: node,
          args: stackScript("gateway"),
          env: {
            HOST: "127.0.0.1",
            PORT: String(ports.api),
            IDENTITY_URL: at("auth"),
            FUNCTIONS_URL: at("gateway"),
            DATA_API_DB_URL: restEnvironment.PGRST_DB_URI ?? "",
            DATA_API_SCHEMAS: restEnvironment.PGRST_DB_SCHEMAS ?? "",
            SUPABASE_PUBLISHABLE_KEY: settings.SUPABASE_PUBLISHABLE_KEY ?? "",
            SUPABASE_SECRET_KEY: settings.SUPABASE_SECRET_KEY ?? "",
            SERVICE_ROLE_JWT: settings.SERVICE_ROLE_TOKEN ?? "",
            ANON_JWT: "none",
            JWT_ISSUER: environmentOf("auth").GOTRUE_JWT_ISSUER ?? "",
          },
          health: `${at("api")}/health`,
        }));
    await startAndWait("web", {
      command: node,
      args: [path.join(root, "remix-app/server.ts")],
      env: {
        ...environmentOf("web"),
        HOST: "127.0.0.1",
        PORT: String(ports.web),
        // No request leaves this machine.
        BREACHED_PASSWORDS_URL: "off",
      },
      health: `${at("web")}/healthz`,
    });
    return {
      settings,
      dbUrl: database.url("postgres"),
      mailbox: at("mailbox"),
      logs: () => [...logs].map(([name, text]) => `${name}:\n${text}`).join("\n"),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }

  async function startCaddy(command: string): Promise<void> {
    const file = path.join(folder, "Caddyfile");
    const text = readFileSync(path.join(composeFolder, "Caddyfile"), "utf8");
    const local = localize(text.replace("http://:8080", "http://proxy:8080"), ports).replace(
      "/srv/templates",
      path.join(root, "supabase/templates"),
    );
    writeFileSync(file, local);
    const config = path.join(folder, "caddy");
    mkdirSync(config);
    await startAndWait("proxy", {
      command,
      args: ["run", "--config", file, "--adapter", "caddyfile"],
      env: { ...environmentOf("proxy"), XDG_DATA_HOME: config, XDG_CONFIG_HOME: config },
      health: `${at("api")}/auth/v1/health`,
    });
  }
}

/** Replaces the names of services by this machine's address and their ports. */
function localize(value: string, ports: Ports): string {
  const names = Object.keys(containerPorts).join("|");
  const text = value.replaceAll(new RegExp(`\\b(${names}):(\\d+)\\b`, "g"), (match, name: ServiceName, port) =>
    Number(port) === containerPorts[name] ? `127.0.0.1:${ports[name]}` : match,
  );
  // Supabase Auth has the host and the port of the mail server in two settings.
  if (text === "mail") return "127.0.0.1";
  return text === String(containerPorts.mail) ? String(ports.mail) : text;
}

async function findPorts(): Promise<Ports> {
  const names = [
    ...(Object.keys(containerPorts) as ServiceName[]),
    "app",
    "api",
    "mailbox",
    "provider",
    "admin",
  ] as const;
  const held = await Promise.all(names.map(() => listenOn(createServer(), 0)));
  const entries = names.map((name, nth) => [name, portOf(held[nth])]);
  for (const server of held) server.close();
  return Object.fromEntries(entries) as Ports;
}

const portOf = (server: Server | undefined) => (server?.address() as AddressInfo | undefined)?.port;

async function listenOn(server: Server, port: number): Promise<Server> {
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return server;
}

/** Serves the templates of Supabase Auth's emails as the proxy does. */
async function serveTemplates(port: number): Promise<() => void> {
  const server = await listenOn(
    createServer((request, response) => {
      const file = path.join(root, "supabase/templates", path.basename(request.url ?? ""));
      response.end(readFileSync(file));
    }),
    port,
  );
  return () => closeServer(server);
}

function closeServer(server: Server): void {
  server.close();
  server.closeAllConnections();
}

/** Serves the local stack's Data API with PostgREST's settings: below `/`, and with tokens of `PGRST_JWT_SECRET`. */
async function serveDataApi(environment: Record<string, string>, port: number): Promise<() => Promise<void>> {
  const {
    PGRST_DB_URI: databaseUrl = "",
    PGRST_DB_SCHEMAS = "",
    PGRST_JWT_SECRET = "",
    PGRST_DB_ANON_ROLE,
  } = environment;
  const api = createDataApi({ databaseUrl, schemas: PGRST_DB_SCHEMAS.split(",") });
  const keySet = createLocalJWKSet(JSON.parse(PGRST_JWT_SECRET) as JSONWebKeySet);
  const server = await listenOn(
    createServer(async (request, response) => {
      try {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk);
        const url = new URL(`/rest/v1${request.url}`, `http://127.0.0.1:${port}`);
        const bearer = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
        const claims = bearer ? (await jwtVerify(bearer, keySet)).payload : { role: PGRST_DB_ANON_ROLE };
        const { method = "GET" } = request;
        const body = method === "GET" || method === "HEAD" ? undefined : Buffer.concat(chunks);
        const headers = new Headers(request.headers as Record<string, string>);
        const kind = claims.role === "service_role" ? "secret" : "publishable";
        const answer = await api.handle(new Request(url, { method, headers, body }), { url, caller: { kind, claims } });
        const content = Buffer.from(await answer.arrayBuffer());
        response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(content);
      } catch (error) {
        response.writeHead(401).end(String(error));
      }
    }),
    port,
  );
  return async () => {
    closeServer(server);
    await api.close();
  };
}
