import { StackError } from "@gatehousehq/local-stack/errors";
import type { HeldPorts } from "@gatehousehq/local-stack/ports";
import { findContentDifferences } from "../database/contents/checkout.ts";
import { webOrigin } from "./addresses.ts";
import { buildTask } from "./embedded-tasks.ts";
import { type Environment, parseEnvironment, refuseExamples } from "./environment.ts";
import { recoveryHashSecret } from "./secrets.ts";
import type { Opened, Plan, Planner, StartOptions } from "./stack.ts";
import { readSupabaseStatus } from "./supabase-status.ts";
import { describeWeb } from "./web-service.ts";

const shownFaults = 20;

/** Returns the environment with the address and keys of the project that `supabase start` runs on this machine. */
export function withSupabaseStatus(root: string, environment: Environment): Environment {
  return parseEnvironment({ ...environment.all, ...readSupabaseStatus(root) }, "supabase status");
}

/**
 * Plans a run on an existing Supabase project, with only the web server. Applies no migrations and seeds nothing.
 * @throws StackError if the database differs from what this version expects, or if an option would seed it
 */
export async function planHosted(start: StartOptions, opened: Opened): Promise<Planner> {
  const { root, options, environment } = start;
  const { settings, all } = environment;
  if (options.testModels) {
    throw new StackError(
      "--test-models needs the embedded stack: nothing is seeded in a project that SUPABASE_URL names.",
    );
  }
  if (!options.dev) refuseExamples(environment);
  const url = settings.SUPABASE_URL ?? "";
  const publishableKey = settings.SUPABASE_PUBLISHABLE_KEY ?? "";
  const secretKey = settings.SUPABASE_SECRET_KEY ?? "";
  const project = { url, secretKey, dbUrl: settings.SUPABASE_DB_URL };
  const differences = await findContentDifferences(root, project);
  const faults = differences.filter(({ level }) => level === "fail");
  if (faults.length > 0) {
    throw new StackError(
      [
        `The database of the Supabase project at ${url} is not what this version expects:`,
        ...faults.slice(0, shownFaults).map(({ says, advice }) => `  ${says}. ${advice}`),
        ...(faults.length > shownFaults ? [`  and ${faults.length - shownFaults} more: npm run doctor`] : []),
        'docs/operating.md says what each means: "What the doctor says about the database".',
      ].join("\n"),
    );
  }
  for (const { says, advice } of differences) opened.log.print("database", `${says}. ${advice}`);

  async function plan(held: HeldPorts): Promise<Plan> {
    const base = webOrigin(settings, held.web.port);
    const web = describeWeb({
      root,
      port: held.web,
      dev: options.dev,
      dependsOn: [],
      // Production must set its own secret. On this machine, the secret is optional and by default derived from the
      // project's key.
      env: { AUTH_RECOVERY_HASH_SECRET: recoveryHashSecret(secretKey), ...all, BASE_URL: base },
    });
    return {
      steps: options.without.has("web") ? [] : [web, ...(options.dev ? [] : [buildTask(root, opened.log)])],
      url: base,
      describe: (services) => ({
        base,
        satellites: [],
        ai: all.AI_URL ?? `${url}/functions`,
        supabase: { url, publishableKey, secretKey, dbUrl: settings.SUPABASE_DB_URL ?? "" },
        mail: { smtp: "", web: all.MAILBOX_URL ?? "" },
        provider: "",
        providerKey: "",
        oidc: "",
        users: [],
        workspaceId: "",
        aiKey: "",
        appKey: "",
        externalApp: { name: "", secret: "" },
        gatewayDbUrl: "",
        services,
      }),
    };
  }

  return { plan, onStop: () => undefined };
}
