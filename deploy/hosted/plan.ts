import { type AuthFields, isSecretField, wantedAuthFields } from "./auth-settings.ts";
import { listByHand } from "./by-hand.ts";
import type { Checkout } from "./checkout.ts";
import type { ManagementApi } from "./management-api.ts";
import {
  backendSecretHash,
  type DeployedFunctions,
  type Project,
  readApiKeys,
  readFunctions,
  readSigningKeys,
  secretDigest,
} from "./project.ts";
import { scramVerifier } from "./scram.ts";
import { addSettings, createGatewayAddress, createWebSettings, type Settings, type WebSettings } from "./settings.ts";

/** One difference. A secret is only "set" or "changed". */
export interface Difference {
  setting: string;
  current: string;
  wanted: string;
}

/** Differences that one repeatable action removes. */
export interface Step {
  about: string;
  differences: Difference[];
  apply: () => Promise<unknown>;
}

export interface Inputs {
  api: ManagementApi;
  project: Project;
  checkout: Checkout;
  web: WebSettings;
  /** The settings files, by what reads them. */
  files: Record<"web" | "functions", { path: string; settings: Settings }>;
  backend: Settings;
  /** Runs Supabase's command line. */
  supabase: (args: readonly string[]) => Promise<void>;
}

/** The function secret that records which sources were deployed, since the API shows none of them. */
const deploymentSecret = "GATEHOUSE_FUNCTIONS_DIGEST";
/** On the Free plan an isolate lives for 150 s, and accepts requests for half of that (docs/deploying.md). */
const freePlanLimitSeconds = "70";
/** Settings that plans lack, by the feature that the API lists for an organization. */
const planFields: [RegExp, string][] = [
  [/^hook_password_verification_attempt_/, "auth.hooks.HOOK_PASSWORD_VERIFICATION_ATTEMPT"],
  [/^hook_mfa_verification_attempt_/, "auth.hooks.HOOK_MFA_VERIFICATION_ATTEMPT"],
  [/^password_hibp_enabled$/, "auth.password_hibp"],
];

/**
 * Compares a project with what it must have. The steps are in the order in which they depend on each other.
 * @returns the steps, and what only a person can do
 */
export function planSetup(inputs: Inputs): { steps: Step[]; byHand: string[] } {
  const { project, checkout, web, backend } = inputs;
  const lacksFeature = (field: string) =>
    planFields.some(([fields, feature]) => fields.test(field) && !project.features.has(feature));
  const all = wantedAuthFields({ auth: checkout.auth, templates: checkout.templates, web, backend });
  const auth = Object.fromEntries(Object.entries(all).filter(([field]) => !lacksFeature(field)));
  const functions = functionSettings(inputs);
  const steps = [
    createApiKeys(inputs),
    completeFiles(inputs, functions.added),
    enableCron(inputs),
    applyMigrations(inputs),
    exposeSchemas(inputs),
    // Functions of an earlier release answer 503 to settings that they don't know.
    deployFunctions(inputs),
    setGatewayPassword(inputs, functions.settings),
    setSecrets(inputs, functions.settings),
    setAuth(inputs, auth),
    rotateSigningKey(inputs),
  ];
  const lacking = Object.keys(all).filter((field) => lacksFeature(field) && field.endsWith("_enabled"));
  return {
    steps: steps.filter(({ differences }) => differences.length > 0),
    byHand: listByHand({ project, web, auth, lacking, functions: functions.settings }),
  };
}

const path = ({ project }: Inputs) => `/v1/projects/${project.ref}`;

function createApiKeys(inputs: Inputs): Step {
  const { api, project } = inputs;
  const missing = (["publishable", "secret"] as const).filter((type) => !project.keys[type]);
  return {
    about: "API keys",
    differences: missing.map((type) => ({ setting: `${type} key`, current: "none", wanted: "created" })),
    apply: async () => {
      for (const type of missing) await api.create(`${path(inputs)}/api-keys`, { type, name: "gatehouse" });
    },
  };
}

/** The functions' settings: those of the file, and those that setup adds to it. */
function functionSettings({ project, files }: Inputs) {
  const own = Object.fromEntries(
    // Supabase sets its own, and refuses them as secrets.
    Object.entries(files.functions.settings).filter(([name, value]) => value && !name.startsWith("SUPABASE_")),
  ) as Record<string, string>;
  const added: Record<string, string> = {};
  if (!own.GATEWAY_DB_URL) {
    if (!project.poolerHost) throw new Error("The project shows no pooler. Set GATEWAY_DB_URL (docs/deploying.md).");
    added.GATEWAY_DB_URL = createGatewayAddress({ project: project.ref, poolerHost: project.poolerHost });
  }
  if (project.plan === "free" && !own.AI_TOTAL_LIMIT_SECONDS) added.AI_TOTAL_LIMIT_SECONDS = freePlanLimitSeconds;
  const web = files.web.settings.BASE_URL;
  if (!own.WEB_URL && web) added.WEB_URL = web;
  return { added, settings: { ...own, ...added } };
}

/** Comes before the project's own changes, so that no new secret is lost. */
function completeFiles({ api, project, files }: Inputs, functions: Record<string, string>): Step {
  const isMissing = ([name]: [string, unknown]) => !files.web.settings[name];
  const web = Object.fromEntries(Object.entries(createWebSettings(project.ref)).filter(isMissing));
  const keys = ["SUPABASE_PUBLISHABLE_KEY", "SUPABASE_SECRET_KEY"].filter((name) => isMissing([name, ""]));
  const differences = (file: string, names: string[]) =>
    names.map((name) => ({ setting: `${name} in ${file}`, current: "missing", wanted: "added" }));
  return {
    about: "settings files",
    differences: [
      ...differences(files.web.path, [...Object.keys(web), ...keys]),
      ...differences(files.functions.path, Object.keys(functions)),
    ],
    apply: async () => {
      const { publishable, secret } = await readApiKeys(api, project.ref);
      if (!publishable || !secret) throw new Error("The project does not show its API keys. Run setup again.");
      const values = { SUPABASE_PUBLISHABLE_KEY: publishable, SUPABASE_SECRET_KEY: secret };
      addSettings(files.functions.path, functions);
      addSettings(files.web.path, { ...web, ...Object.fromEntries(Object.entries(values).filter(isMissing)) });
    },
  };
}

function enableCron(inputs: Inputs): Step {
  return {
    about: "extensions",
    differences: inputs.project.hasCron ? [] : [{ setting: "pg_cron", current: "off", wanted: "on" }],
    apply: () => query(inputs, "create extension if not exists pg_cron with schema pg_catalog"),
  };
}

function applyMigrations({ project, checkout, supabase }: Inputs): Step {
  const unknown = [...project.migrations].filter((version) => !checkout.migrations.includes(version));
  if (unknown.length > 0)
    throw new Error(`The project has migrations that this checkout lacks (${unknown.join(", ")}). Use its release.`);
  const missing = checkout.migrations.filter((version) => !project.migrations.has(version));
  return {
    about: "migrations",
    differences: missing.length === 0 ? [] : [{ setting: listOf(missing), current: "not applied", wanted: "applied" }],
    apply: () => supabase(["db", "push", "--linked", "--project-ref", project.ref, "--yes"]),
  };
}

function exposeSchemas(inputs: Inputs): Step {
  const { api, project, checkout } = inputs;
  const wanted = {
    db_schema: checkout.api.schemas.join(","),
    db_extra_search_path: checkout.api.extra_search_path.join(","),
    max_rows: checkout.api.max_rows,
  };
  const current = {
    ...project.dataApi,
    db_schema: withoutSpaces(project.dataApi.db_schema),
    db_extra_search_path: withoutSpaces(project.dataApi.db_extra_search_path),
  };
  const changed = differing(wanted, (field, value) => current[field as keyof typeof current] === value);
  return {
    about: "Data API",
    differences: Object.entries(changed).map(([field, value]) =>
      difference(field, current[field as "db_schema"], value),
    ),
    apply: () => api.put("PATCH", `${path(inputs)}/postgrest`, changed),
  };
}

function setAuth(inputs: Inputs, wanted: AuthFields): Step {
  const { api, project } = inputs;
  const changed = differing(wanted, (field, value) => {
    const current = project.auth[field];
    // The API returns null for a setting without a value.
    if (current == null) return value === false || value === "";
    return current === (isSecretField(field) ? backendSecretHash(project.ref, String(value)) : value);
  });
  return {
    about: "identity backend",
    differences: Object.entries(changed).map(([field, value]) =>
      isSecretField(field)
        ? secretDifference(field, Boolean(project.auth[field]))
        : difference(field, project.auth[field], value),
    ),
    apply: () => api.put("PATCH", `${path(inputs)}/config/auth`, changed),
  };
}

function rotateSigningKey(inputs: Inputs): Step {
  const { api, project } = inputs;
  const current = project.signingKeys.find(({ status }) => status === "in_use")?.algorithm;
  const keys = `${path(inputs)}/config/auth/signing-keys`;
  return {
    about: "signing key",
    differences: current === "ES256" ? [] : [difference("algorithm", current ?? "the legacy secret", "ES256")],
    apply: async () => {
      const existing = await readSigningKeys(api, project.ref);
      // The legacy secret has to become a key first, so that its tokens stay valid.
      if (existing.length === 0) await api.create(`${keys}/legacy`, undefined);
      const isStandby = (key: (typeof existing)[number]) => key.algorithm === "ES256" && key.status === "standby";
      if (!existing.some(isStandby)) await api.create(keys, { algorithm: "ES256", status: "standby" });
      const standby = (await readSigningKeys(api, project.ref)).find(isStandby);
      if (!standby) throw new Error("The project does not list its new signing key. Run setup again.");
      await api.put("PATCH", `${keys}/${standby.id}`, { status: "in_use" });
    },
  };
}

/** The password is part of a secret. It is set before that secret, so an equal secret means an equal password. */
function setGatewayPassword(inputs: Inputs, { GATEWAY_DB_URL: address = "" }: Record<string, string>): Step {
  if (!URL.canParse(address)) throw new Error("GATEWAY_DB_URL must be an address (docs/deploying.md).");
  const { username, password } = new URL(address);
  if (!/^gateway(\.|$)/.test(username) || !password)
    throw new Error("GATEWAY_DB_URL must have the user gateway and its password (docs/deploying.md).");
  const isSet = inputs.project.secretDigests.get("GATEWAY_DB_URL") === secretDigest(address);
  return {
    about: "database role",
    differences: isSet
      ? []
      : [{ setting: "password of role gateway", current: "unknown", wanted: "as in GATEWAY_DB_URL" }],
    apply: () => query(inputs, `alter role gateway password '${scramVerifier(decodeURIComponent(password))}'`),
  };
}

function setSecrets(inputs: Inputs, settings: Record<string, string>): Step {
  const { api, project } = inputs;
  const changed = Object.entries(settings).filter(
    ([name, value]) => project.secretDigests.get(name) !== secretDigest(value),
  );
  return {
    about: "function secrets",
    differences: changed.map(([name]) => secretDifference(name, project.secretDigests.has(name))),
    apply: () =>
      api.put(
        "POST",
        `${path(inputs)}/secrets`,
        changed.map(([name, value]) => ({ name, value })),
      ),
  };
}

function deployFunctions(inputs: Inputs): Step {
  const { api, project, checkout, supabase } = inputs;
  const names = Object.keys(checkout.functions);
  const deployed = new Map(project.functions.map((fn) => [fn.slug, fn]));
  const isCurrent =
    project.secretDigests.get(deploymentSecret) === secretDigest(deploymentDigest(checkout, project.functions)) &&
    names.every((name) => deployed.get(name)?.verify_jwt === checkout.functions[name]?.verify_jwt);
  return {
    about: "functions",
    differences: isCurrent
      ? []
      : [
          {
            setting: listOf(names),
            current: project.functions.length === 0 ? "not deployed" : "deployed from other sources or settings",
            wanted: "this checkout's",
          },
        ],
    apply: async () => {
      await supabase(["functions", "deploy", "--use-api", "--project-ref", project.ref]);
      const value = deploymentDigest(checkout, await readFunctions(api, project.ref));
      await api.put("POST", `${path(inputs)}/secrets`, [{ name: deploymentSecret, value }]);
    },
  };
}

/** Identifies the sources and the bundles made of them, so that a deployment from elsewhere is noticed. */
function deploymentDigest({ functionsDigest, functions }: Checkout, deployed: DeployedFunctions): string {
  const bundles = deployed
    .filter(({ slug }) => Object.hasOwn(functions, slug))
    .map(({ slug, version, ezbr_sha256 }) => `${slug} ${ezbr_sha256 ?? version}`);
  return secretDigest([functionsDigest, ...bundles.sort()].join("\n"));
}

const query = (inputs: Inputs, text: string) =>
  inputs.api.put("POST", `${path(inputs)}/database/query`, { query: text });
const withoutSpaces = (list: string) => list.replaceAll(" ", "");

function differing<Value>(wanted: Record<string, Value>, isSame: (field: string, value: Value) => boolean) {
  return Object.fromEntries(Object.entries(wanted).filter(([field, value]) => !isSame(field, value)));
}

const maxShownLength = 60;

function difference(setting: string, current: unknown, wanted: unknown): Difference {
  return { setting, current: show(current), wanted: show(wanted) };
}

function secretDifference(setting: string, isSet: boolean): Difference {
  return isSet ? { setting, current: "set", wanted: "changed" } : { setting, current: "unset", wanted: "set" };
}

function listOf(names: readonly string[]): string {
  return names.length > 3 ? `${names.length}, from ${names[0]} to ${names.at(-1)}` : names.join(", ");
}

function show(value: unknown): string {
  const text = value == null ? "unset" : String(value) || "empty";
  return text.length > maxShownLength || text.includes("\n") ? `text of ${text.length} characters` : text;
}
