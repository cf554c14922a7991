import { createHash, createHmac } from "node:crypto";
import { z } from "zod";
import { type ManagementApi, ManagementApiError } from "./management-api.ts";

/** Responses of the Management API: https://supabase.com/docs/reference/api/introduction */
const project = z.object({
  name: z.string(),
  region: z.string(),
  status: z.string(),
  organization_slug: z.string(),
  database: z.object({ postgres_engine: z.string() }),
});
const organization = z.object({ plan: z.string().optional() });
const entitlements = z.object({
  entitlements: z.array(
    z.object({
      feature: z.object({ key: z.string() }),
      hasAccess: z.boolean(),
      config: z.object({ set: z.array(z.string()).optional() }),
    }),
  ),
});
const postgrest = z.object({ db_schema: z.string(), db_extra_search_path: z.string(), max_rows: z.number() });
const secrets = z.array(z.object({ name: z.string(), value: z.string() }));
const deployedFunctions = z.array(
  z.object({
    slug: z.string(),
    version: z.number(),
    verify_jwt: z.boolean().optional(),
    ezbr_sha256: z.string().optional(),
  }),
);
export type DeployedFunctions = z.output<typeof deployedFunctions>;
const apiKeys = z.array(z.object({ type: z.string().nullish(), api_key: z.string().nullish() }));
const signingKeys = z.object({
  keys: z.array(z.object({ id: z.string(), algorithm: z.string(), status: z.string() })),
});
const poolers = z.array(z.object({ database_type: z.string(), db_host: z.string() }));
const database = z.tuple([z.object({ has_cron: z.boolean(), has_history: z.boolean() })]);
const versions = z.array(z.object({ version: z.string() }));

export type Project = Awaited<ReturnType<typeof readProject>>;

/** Reads the present state of a hosted project, and changes nothing. */
export async function readProject(api: ManagementApi, ref: string) {
  const path = `/v1/projects/${ref}`;
  const facts = await api.get(path, project);
  refuseUnusable(ref, facts);
  const organizationPath = `/v1/organizations/${facts.organization_slug}`;
  const [plan, features, auth, dataApi, digests, functions, keys, signing, pooler, migrations] = await Promise.all([
    api.get(organizationPath, organization),
    api.get(`${organizationPath}/entitlements`, entitlements),
    api.get(`${path}/config/auth`, z.record(z.string(), z.unknown())),
    api.get(`${path}/postgrest`, postgrest),
    api.get(`${path}/secrets`, secrets),
    readFunctions(api, ref),
    readApiKeys(api, ref),
    readSigningKeys(api, ref),
    api.get(`${path}/config/database/pooler`, poolers),
    readDatabase(api, path),
  ]);
  return {
    ref,
    name: facts.name,
    region: facts.region,
    plan: plan.plan,
    features: new Set(
      features.entitlements
        .filter(({ hasAccess }) => hasAccess)
        .flatMap(({ feature, config }) => [feature.key, ...(config.set ?? []).map((part) => `${feature.key}.${part}`)]),
    ),
    auth,
    dataApi,
    secretDigests: new Map(digests.map(({ name, value }) => [name, value])),
    functions,
    keys,
    signingKeys: signing,
    poolerHost: pooler.find(({ database_type }) => database_type === "PRIMARY")?.db_host,
    ...migrations,
  };
}

function refuseUnusable(ref: string, { status, database: { postgres_engine } }: z.output<typeof project>): void {
  const page = `https://supabase.com/dashboard/project/${ref}`;
  if (status === "INACTIVE") throw new ManagementApiError(`Project ${ref} is paused. Restore it: ${page}`);
  if (!status.startsWith("ACTIVE"))
    throw new ManagementApiError(`Project ${ref} is not ready (${status}). Try again when it is: ${page}`);
  if (Number(postgres_engine) < 17)
    throw new ManagementApiError(
      `Project ${ref} runs Postgres ${postgres_engine}. Upgrade it to 17: ${page}/settings/infrastructure`,
    );
}

export function readFunctions(api: ManagementApi, ref: string): Promise<DeployedFunctions> {
  return api.get(`/v1/projects/${ref}/functions`, deployedFunctions);
}

/** Returns the project's newer API keys, undefined where it has none of that type. */
export async function readApiKeys(api: ManagementApi, ref: string) {
  const keys = await api.get(`/v1/projects/${ref}/api-keys?reveal=true`, apiKeys);
  const find = (wanted: string) => keys.find(({ type }) => type === wanted)?.api_key ?? undefined;
  return { publishable: find("publishable"), secret: find("secret") };
}

export async function readSigningKeys(api: ManagementApi, ref: string) {
  return (await api.get(`/v1/projects/${ref}/config/auth/signing-keys`, signingKeys)).keys;
}

async function readDatabase(api: ManagementApi, path: string) {
  const query = async <Schema extends z.ZodType>(text: string, schema: Schema) =>
    schema.parse(await api.put("POST", `${path}/database/query/read-only`, { query: text }));
  const [{ has_cron: hasCron, has_history: hasHistory }] = await query(
    `select exists (select from pg_catalog.pg_extension e where e.extname = 'pg_cron') as has_cron,
       pg_catalog.to_regclass('supabase_migrations.schema_migrations') is not null as has_history`,
    database,
  );
  const applied = hasHistory
    ? await query("select m.version from supabase_migrations.schema_migrations m", versions)
    : [];
  return { hasCron, migrations: new Set(applied.map(({ version }) => version)) };
}

/** The digest that the API shows for a secret of the functions (github.com/supabase/supabase/pull/30135). */
export function secretDigest(value: string): string {
  return createHash("sha256").update(value).digest("hex");
}

/**
 * The hash that the API shows for a secret of the identity backend, keyed with the project's reference
 * (github.com/supabase/cli, apps/cli-go/pkg/config/secret.go).
 */
export function backendSecretHash(ref: string, value: string): string {
  return createHmac("sha256", ref).update(value).digest("hex");
}
