import { existsSync } from "node:fs";
import path from "node:path";
import pg from "pg";
import { type Addresses, addressesOf, databaseUrl, wishedWebPort } from "./addresses.ts";
import { ensureBuild } from "./build.ts";
import { prepareDataDir } from "./data-dir.ts";
import { type DemoData, seedDemo } from "./demo-seed.ts";
import { removeDescription, type StackDescription, writeDescription } from "./description.ts";
import type { Environment } from "./environment.ts";
import { applyMigrations, applySqlFile } from "./migrations.ts";
import type { Options } from "./options.ts";
import { choosePorts, describeTaken, type Ports } from "./ports.ts";
import { createLog, type Log } from "./runner/log.ts";
import { createRun } from "./runner/run.ts";
import { takeDataDir } from "./runner/run-record.ts";
import type { Step, Task } from "./runner/service.ts";
import { loadSecrets, mintRoleToken, type Secrets } from "./secrets.ts";
import { bootstrapCluster, initialiseCluster } from "./services/postgres/cluster.ts";
import { type Placement, placeCluster } from "./services/postgres/placement.ts";
import { describeServices } from "./services.ts";
import { serveTemplates } from "./templates.ts";

export type StartOptions = {
  /** The checkout. */
  root: string;
  options: Options;
  environment: Environment;
  terminal: NodeJS.WriteStream;
  onGiveUp: (error: Error) => void;
};

export type Stack = {
  start: () => Promise<StackDescription>;
  stop: () => Promise<void>;
  kill: () => void;
};

const demoNeeds = ["gateway", "identity", "postgres"];

/** Prepares the embedded stack: data directory, secrets, ports, services. Nothing runs until `start`. */
export async function prepareEmbedded(given: StartOptions): Promise<Stack> {
  const { root, options, environment, terminal, onGiveUp } = given;
  const dataDir = path.resolve(options.dataDir);
  prepareDataDir(dataDir);
  const log = createLog({ directory: path.join(dataDir, "logs"), terminal, verbose: options.verbose });
  const record = await takeDataDir({
    dataDir,
    onLeftover: (names) => log.say("stack", `ended what a run before had left behind: ${names.join(", ")}`),
  });
  try {
    removeDescription(dataDir);
    const secrets = await loadSecrets(dataDir);
    const ports = await findPorts(options, environment, log);
    const addresses = addressesOf(ports, environment.settings);
    const clusterDir = path.join(dataDir, environment.settings.IDENTITY_BIN ? "postgres-identity-bin" : "postgres");
    const placement = await placeCluster(clusterDir);
    if (placement.notice) log.say("postgres", placement.notice);
    const templates = await serveTemplates(path.join(root, "supabase/templates"));
    const [anon, serviceRole] = await Promise.all([
      mintRoleToken("anon", secrets.jwtSecret),
      mintRoleToken("service_role", secrets.jwtSecret),
    ]);
    const context = { root, ports, addresses, secrets, environment, placement, dev: options.dev };
    const services = await describeServices({
      ...context,
      roleTokens: { anon, serviceRole },
      templatesUrl: templates.url,
    });

    let demo: DemoData = { users: [], workspaceId: "", aiKey: "" };
    const tasks = describeTasks({
      ...context,
      dataDir,
      log,
      onDemo: (data) => {
        demo = data;
      },
    });
    const steps = chooseSteps([...services, ...tasks], options);
    let ready = false;
    const describe = (): StackDescription => ({
      ...describeFixed(addresses, ports, secrets),
      ...demo,
      services: run.processes().map(({ name, pid }) => ({
        name,
        pid,
        port: services.find((service) => service.name === name)?.port ?? 0,
      })),
    });
    const run = createRun({
      steps,
      log,
      record,
      onGiveUp,
      onChange: () => {
        if (ready) writeDescription(dataDir, describe());
      },
    });
    record.announce(addresses.base);
    return {
      async start() {
        await run.start();
        ready = true;
        writeDescription(dataDir, describe());
        return describe();
      },
      async stop() {
        ready = false;
        removeDescription(dataDir);
        templates.close();
        await run.stop();
      },
      kill: run.kill,
    };
  } catch (error) {
    record.remove();
    throw error;
  }
}

async function findPorts(options: Options, environment: Environment, log: Log): Promise<Ports> {
  const wishedWeb = options.ports.web === 0 ? 0 : (wishedWebPort(environment.settings) ?? options.ports.web);
  const { ports, taken } = await choosePorts({ ...options.ports, web: wishedWeb });
  for (const one of taken) {
    if (!options.without.has(one.name)) log.say("stack", describeTaken(one));
  }
  return ports;
}

function chooseSteps(steps: readonly Step[], { without, dev }: Options): Step[] {
  const left = new Set(without);
  if (dev || without.has("web")) left.add("build");
  if (demoNeeds.some((name) => without.has(name))) left.add("demo");
  return steps.filter((step) => !left.has(step.name));
}

function describeTasks(context: {
  root: string;
  dataDir: string;
  ports: Ports;
  addresses: Addresses;
  secrets: Secrets;
  placement: Placement;
  log: Log;
  onDemo: (data: DemoData) => void;
}): Task[] {
  const { root, dataDir, ports, addresses, secrets, placement, log, onDemo } = context;
  const dbUrl = databaseUrl("postgres", secrets, ports.postgres);
  const task = (name: string, dependsOn: string[], run: () => Promise<void>): Task => ({
    kind: "task",
    name,
    dependsOn,
    run,
  });
  return [
    task("cluster", [], async () => {
      await initialiseCluster({ dataDir: placement.dataDir, passwords: secrets.passwords, placement });
    }),
    task("bootstrap", ["postgres"], () => bootstrapCluster({ port: ports.postgres, passwords: secrets.passwords })),
    task("migrations", ["identity", "bootstrap"], async () => {
      const applied = await applyMigrations({ dbUrl, directory: path.join(root, "supabase/migrations") });
      if (applied.length > 0) log.say("migrations", `applied ${applied.length}, up to ${applied.at(-1)}`);
      await letGatewayIn(dbUrl, secrets.passwords.gateway);
    }),
    task("seed", ["migrations"], async () => {
      const file = path.join(root, "supabase/seed.sql");
      if (existsSync(file)) await applySqlFile({ dbUrl, file });
    }),
    task("demo", ["gateway", "seed"], async () => {
      onDemo(await seedDemo({ dataDir, supabaseUrl: addresses.supabase, dbUrl, secrets }));
    }),
    task("build", [], async () => {
      if (await ensureBuild({ root, logFile: log.fileOf("build") })) log.say("build", "the web server was built");
    }),
  ];
}

/** The migrations make the functions' login role without a password; this stack gives it its own. */
async function letGatewayIn(dbUrl: string, password: string): Promise<void> {
  const client = new pg.Client({ connectionString: dbUrl });
  await client.connect();
  try {
    await client.query(`alter role gateway password ${client.escapeLiteral(password)}`);
  } finally {
    await client.end();
  }
}

function describeFixed(
  addresses: Addresses,
  ports: Ports,
  secrets: Secrets,
): Omit<StackDescription, "users" | "workspaceId" | "aiKey" | "services"> {
  return {
    base: addresses.base,
    ai: `${addresses.supabase}/functions`,
    supabase: {
      url: addresses.supabase,
      publishableKey: secrets.publishableKey,
      secretKey: secrets.secretKey,
      dbUrl: databaseUrl("postgres", secrets, ports.postgres),
    },
    mail: { smtp: `smtp://127.0.0.1:${ports.smtp}`, web: addresses.mailbox },
    provider: addresses.provider,
    gatewayDbUrl: databaseUrl("gateway", secrets, ports.postgres),
  };
}
