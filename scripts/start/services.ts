import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import type { HeldPorts, Ports } from "@gatehousehq/local-stack/ports";
import { host } from "@gatehousehq/local-stack/ports";
import { limits, type Service } from "@gatehousehq/local-stack/runner/service";
import { functionsCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import { clusterCommand, removeStaleLock, superuser } from "@gatehousehq/local-stack/services/postgres/cluster";
import type { Placement } from "@gatehousehq/local-stack/services/postgres/placement";
import { type Addresses, databaseUrl } from "./addresses.ts";
import { botChallengeOf } from "./bot-challenge.ts";
import { demoApp } from "./demo-apps.ts";
import { demoProviders } from "./description.ts";
import { type Environment, inheritedNames } from "./environment.ts";
import { identityEnvironment, oidcClient } from "./identity-environment.ts";
import { type ScaledPorts, scaleOut } from "./scale-out.ts";
import { demoAppSecret, type Secrets } from "./secrets.ts";
import { brandSettings, describeWeb, emailBrand, webEnvironment } from "./web-service.ts";

export type ServiceContext = {
  /** The path of the checkout. */
  root: string;
  dataDir: string;
  held: HeldPorts;
  /** The port numbers from `held`. */
  ports: Ports;
  addresses: Addresses;
  secrets: Secrets;
  roleTokens: { anon: string; serviceRole: string };
  environment: Environment;
  placement: Placement;
  templatesUrl: string;
  /**
   * The port of the proxy through which the services reach Postgres. Undefined if they connect to Postgres directly.
   */
  databaseVia: number | undefined;
  /** The additional ports if several servers run behind a pooler; undefined otherwise. */
  scaled: ScaledPorts | undefined;
  dev: boolean;
};

function plainEnvironment(all: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(all).filter(([name]) => inheritedNames.includes(name)));
}

/** Describes every process of the embedded stack. */
export async function describeServices(context: ServiceContext): Promise<Service[]> {
  const {
    root,
    dataDir,
    held,
    ports,
    addresses,
    secrets,
    roleTokens,
    environment,
    placement,
    databaseVia,
    scaled,
    dev,
  } = context;
  const plain = plainEnvironment(environment.all);
  const script = (file: string) => ({ command: process.execPath, args: [path.join(root, file)], cwd: root });
  const database = (role: keyof Secrets["passwords"]) => databaseUrl(role, secrets, databaseVia ?? ports.postgres);
  // The Data API does not use the pooler: like PostgREST, which it replaces, it needs its own session for LISTEN.
  const pooled = (role: keyof Secrets["passwords"]) =>
    databaseUrl(role, secrets, scaled?.pooler.port ?? databaseVia ?? ports.postgres);
  const gotrue = Object.fromEntries(Object.entries(environment.all).filter(([name]) => name.startsWith("GOTRUE_")));
  const identityBinary = environment.settings.IDENTITY_BIN;
  const client = oidcClient(addresses, secrets);
  const botChallenge = botChallengeOf(context);

  const services: Service[] = [
    {
      kind: "service",
      name: "postgres",
      ...(await clusterCommand({ dataDir: placement.dataDir, port: ports.postgres, placement })),
      cwd: "/",
      env: { ...plain, LC_ALL: "C" },
      ports: [held.postgres],
      dependsOn: ["cluster"],
      health: {
        check: () =>
          withDatabase(
            { connectionString: databaseUrl(superuser, secrets, ports.postgres), connectionTimeoutMillis: 2_000 },
            async () => undefined,
          ),
      },
      ...limits,
      stopSignal: "SIGINT",
      alerts: /\b(FATAL|PANIC)\b(?!:\s+the database system is)/,
      beforeStart: async () => removeStaleLock(placement.dataDir),
      hint: "If its data is damaged, start afresh: npm run reset",
    },
    {
      kind: "service",
      name: "mail",
      ...script("packages/local-stack/services/mail/main.ts"),
      env: {
        ...plain,
        HOST: host,
        SMTP_PORT: String(ports.smtp),
        WEB_PORT: String(ports.mail),
        MAIL_DIR: path.join(dataDir, "mail"),
      },
      ports: [held.mail, held.smtp],
      dependsOn: [],
      health: { url: `${addresses.mailbox}/api/healthz` },
      ...limits,
    },
    {
      kind: "service",
      name: "identity",
      ...(identityBinary
        ? { command: path.resolve(identityBinary), args: [], cwd: path.dirname(path.resolve(identityBinary)) }
        : script("packages/local-stack/services/identity/main.ts")),
      env: {
        ...plain,
        ...identityEnvironment({
          addresses,
          ports,
          secrets,
          databaseUrl: pooled("supabase_auth_admin"),
          templatesUrl: context.templatesUrl,
          brand: emailBrand(environment),
          parentDomain: environment.settings.PARENT_DOMAIN,
          given: gotrue,
          isBinary: identityBinary !== undefined,
        }),
        ...botChallenge?.identity,
      },
      ports: [held.identity],
      dependsOn: ["bootstrap", "pgbouncer"],
      health: { url: `${addresses.identity}/health` },
      ...limits,
    },
    {
      kind: "service",
      name: "provider",
      ...script("packages/local-stack/services/provider/main.ts"),
      env: { ...plain, HOST: host, PORT: String(ports.provider), PROVIDER_API_KEY: secrets.providerKey },
      ports: [held.provider],
      dependsOn: [],
      health: { url: `${addresses.provider}/healthz` },
      ...limits,
    },
    {
      kind: "service",
      name: "oidc",
      ...script("packages/local-stack/services/oidc/main.ts"),
      env: {
        ...plain,
        HOST: host,
        PORT: String(ports.oidc),
        OIDC_ISSUER: addresses.oidc,
        OIDC_CLIENT_ID: client.id,
        OIDC_CLIENT_SECRET: client.secret,
        OIDC_REDIRECT_URI: client.redirectUri,
      },
      ports: [held.oidc],
      dependsOn: [],
      health: { url: `${addresses.oidc}/healthz` },
      ...limits,
      // The OpenID library warns about features that a provider for demo accounts does not need, so warnings are not
      // shown.
      alerts: /\b(error|cannot|incomplete)\b/i,
    },
    ...(botChallenge
      ? [
          {
            kind: "service" as const,
            name: "turnstile",
            ...script("packages/local-stack/services/turnstile/main.ts"),
            env: { ...plain, ...botChallenge.service, HOST: host, PORT: String(ports.turnstile) },
            ports: [held.turnstile] as const,
            dependsOn: [],
            health: { url: `${addresses.turnstile}/healthz` },
            ...limits,
          },
        ]
      : []),
    {
      kind: "service",
      name: "gateway",
      ...script("packages/local-stack/services/gateway/main.ts"),
      env: {
        ...plain,
        SUPABASE_PUBLISHABLE_KEY: secrets.publishableKey,
        SUPABASE_SECRET_KEY: secrets.secretKey,
        HOST: host,
        PORT: String(ports.gateway),
        IDENTITY_URL: addresses.identity,
        FUNCTIONS_URL: addresses.functions,
        DATA_API_DB_URL: database("authenticator"),
        DATA_API_SCHEMAS: "public,private,ai",
        ANON_JWT: roleTokens.anon,
        SERVICE_ROLE_JWT: roleTokens.serviceRole,
        JWT_ISSUER: `${addresses.supabase}/auth/v1`,
      },
      ports: [held.gateway],
      dependsOn: ["identity", "migrations"],
      health: { url: `${addresses.supabase}/health` },
      ...limits,
    },
    {
      kind: "service",
      name: "functions",
      ...functionsCommand(root, {
        memoryLimitMb: environment.settings.AI_MEMORY_LIMIT_MB,
        deno: environment.settings.LOCAL_DENO,
        loop: environment.settings.LOCAL_RESPONSE_LOOP,
        watch: dev,
      }),
      cwd: root,
      env: {
        ...environment.all,
        HOST: host,
        PORT: String(ports.functions),
        // These variables have the same names as on hosted Supabase.
        SUPABASE_URL: addresses.supabase,
        SUPABASE_DB_URL: pooled("postgres"),
        SUPABASE_PUBLISHABLE_KEYS: JSON.stringify({ default: secrets.publishableKey }),
        SUPABASE_SECRET_KEYS: JSON.stringify({ default: secrets.secretKey }),
        SUPABASE_ANON_KEY: secrets.publishableKey,
        SUPABASE_SERVICE_ROLE_KEY: secrets.secretKey,
        GATEWAY_DB_URL: pooled("gateway"),
        WEB_URL: addresses.base,
        ...demoProviders({ provider: addresses.provider, providerKey: secrets.providerKey }),
        AI_DRAIN_SECONDS: "2",
        DENO_NO_UPDATE_CHECK: "1",
      },
      ports: [held.functions],
      dependsOn: ["migrations", "pgbouncer"],
      health: { url: `${addresses.functions}/healthz` },
      ...limits,
      // A process of Deno that watches files does not end when its program does.
      ...(dev ? { stopSignal: "SIGKILL" as const } : {}),
    },
    describeWeb({ root, port: held.web, dev, dependsOn: ["gateway"], env: webEnvironment(context) }),
    {
      kind: "service",
      name: demoApp.name,
      ...script("satellites/notes/server.ts"),
      // The satellite gets none of the platform's settings, only the platform's address and its own secret.
      env: {
        ...plain,
        NODE_ENV: "production",
        APP_NAME: demoApp.name,
        // Without a cache, a session that a test deletes from the database is refused at the next request.
        INTROSPECTION_CACHE_SECONDS: "0",
        APP_SECRET: demoAppSecret(secrets, demoApp.name),
        ...brandSettings(environment),
        BASE_URL: addresses.notes,
        CENTRAL_URL: addresses.base,
        CENTRAL_API_URL: `http://${host}:${ports.web}`,
        HOST: host,
        PORT: String(ports.notes),
      },
      ports: [held.notes],
      dependsOn: [],
      health: { url: `http://${host}:${ports.notes}/healthz` },
      ...limits,
    },
  ];
  return scaleOut(services, { context, poolerUrl: pooled("postgres"), plain });
}
