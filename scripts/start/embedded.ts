import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { type HeldPorts, host, numbersOf, type Ports } from "@gatehousehq/local-stack/ports";
import type { Step } from "@gatehousehq/local-stack/runner/service";
import { placeCluster } from "@gatehousehq/local-stack/services/postgres/placement";
import { installHostedDeno } from "../install.ts";
import { backendEmails } from "../operator/email-templates/backend-emails.ts";
import { type Addresses, addressesOf, databaseUrl } from "./addresses.ts";
import { demoApp } from "./demo-apps.ts";
import type { DemoData } from "./demo-seed.ts";
import type { StackDescription } from "./description.ts";
import { describeTasks } from "./embedded-tasks.ts";
import type { Options } from "./options.ts";
import { holdScaledPorts } from "./scale-out.ts";
import { loadSecrets, mintRoleToken, type Secrets } from "./secrets.ts";
import { describeServices } from "./services.ts";
import type { Opened, Plan, Planner, StartOptions } from "./stack.ts";
import { refuseLackingFeatures } from "./supabase-config.ts";
import { serveTemplates } from "./templates.ts";
import { emailBrand } from "./web-service.ts";

const databaseTasks = ["cluster", "bootstrap", "migrations", "seed", "demo"];
const demoNeeds = ["gateway", "identity"];

/** Plans the embedded stack: its secrets, its services and the tasks between their starts. */
export async function planEmbedded(start: StartOptions, opened: Opened): Promise<Planner> {
  const { root, options, environment } = start;
  const { dataDir, log } = opened;
  if (!environment.settings.IDENTITY_BIN) {
    refuseLackingFeatures(readFileSync(path.join(root, "supabase/config.toml"), "utf8"));
  }
  if (environment.settings.LOCAL_DENO === "deno-hosted") await installHostedDeno(root);
  // Each identity backend creates its own version of the schema `auth`, so each gets its own cluster.
  const clusterName = environment.settings.IDENTITY_BIN ? "postgres-identity-bin" : "postgres";
  const placement = await placeCluster(path.join(dataDir, clusterName), environment.settings.POSTGRES_BIN);
  if (placement.notice) log.print("postgres", placement.notice);
  const templates = await serveTemplates(Object.values(backendEmails(emailBrand(environment))));

  async function plan(held: HeldPorts): Promise<Plan> {
    const ports = { ...numbersOf(held), ...(usesOtherPostgres(options) ? { postgres: options.databaseVia } : {}) };
    const addresses = addressesOf(ports, environment.settings);
    const secrets = await loadSecrets(dataDir, {
      clusterExists: existsSync(path.join(placement.dataDir, "PG_VERSION")),
    });
    const [anon, serviceRole] = await Promise.all([
      mintRoleToken("anon", secrets.jwtSecret),
      mintRoleToken("service_role", secrets.jwtSecret),
    ]);
    let demo: DemoData = { users: [], workspaceId: "", aiKey: "", appKey: "", externalApp: { name: "", secret: "" } };
    const context = {
      root,
      dataDir,
      held,
      ports,
      addresses,
      secrets,
      environment,
      placement,
      databaseVia: options.databaseVia,
      scaled: options.scale ? await holdScaledPorts() : undefined,
      dev: options.dev,
    };
    const services = await describeServices({
      ...context,
      roleTokens: { anon, serviceRole },
      templatesUrl: templates.url,
    });
    const tasks = describeTasks(context, {
      log,
      testModels: options.testModels,
      onDemo: (data) => {
        demo = data;
      },
    });
    return {
      steps: chooseSteps([...services, ...tasks], options),
      url: addresses.base,
      describe: (processes) => ({
        ...describeFixed(addresses, ports, secrets),
        ...demo,
        satellites: processes.some(({ name }) => name === demoApp.name)
          ? [{ name: demoApp.name, url: addresses.notes }]
          : [],
        services: processes,
      }),
    };
  }

  return { plan, onStop: templates.close };
}

/** Returns whether the stack sets up a Postgres that is not its own. That Postgres has the passwords of the data directory. */
function usesOtherPostgres({ without, databaseVia }: Options): boolean {
  return without.has("postgres") && databaseVia !== undefined;
}

function chooseSteps(steps: readonly Step[], options: Options): Step[] {
  const { without, dev } = options;
  const left = new Set(without);
  if (dev || without.has("web")) left.add("build");
  if (without.has("web")) left.add(demoApp.name);
  if (usesOtherPostgres(options)) left.add("cluster");
  else if (without.has("postgres")) for (const name of databaseTasks) left.add(name);
  if (demoNeeds.some((name) => without.has(name))) left.add("demo");
  return steps.filter((step) => !left.has(step.name));
}

function describeFixed(
  addresses: Addresses,
  ports: Ports,
  secrets: Secrets,
): Omit<StackDescription, keyof DemoData | "services" | "satellites"> {
  return {
    base: addresses.base,
    ai: `${addresses.supabase}/functions`,
    supabase: {
      url: addresses.supabase,
      publishableKey: secrets.publishableKey,
      secretKey: secrets.secretKey,
      dbUrl: databaseUrl("postgres", secrets, ports.postgres),
    },
    mail: { smtp: `smtp://${host}:${ports.smtp}`, web: addresses.mailbox },
    provider: addresses.provider,
    providerKey: secrets.providerKey,
    oidc: addresses.oidc,
    gatewayDbUrl: databaseUrl("gateway", secrets, ports.postgres),
  };
}
