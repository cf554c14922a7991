/** How a provider in this process behaves, so that it imitates a real provider. */
export type Shape = {
  /** The company that the provider imitates; the demo provider imitates none. */
  company?: string;
  /** The path that the issuer's URL adds to the base of the provider's URLs. */
  issuerPath: string;
  paths: { authorization: string; token: string; userinfo: string; jwks: string };
  clientAuthentication: "client_secret_basic" | "client_secret_post";
  /** Whether the provider returns the user's identity even without the scope openid. */
  alwaysOpenId: boolean;
  /** Whether the provider's ID token contains all claims, so that no other request is needed. */
  claimsInIdToken: boolean;
  /** Whether the provider returns a person's name only once, along with the code. */
  namesInAnswer: boolean;
  /** Whether the provider has GitHub's API instead of OpenID's userinfo and ID token. */
  githubApi: boolean;
};

const common = {
  issuerPath: "",
  paths: { authorization: "/auth", token: "/token", userinfo: "/userinfo", jwks: "/certs" },
  clientAuthentication: "client_secret_basic",
  alwaysOpenId: false,
  claimsInIdToken: true,
  namesInAnswer: false,
  githubApi: false,
} as const;

/**
 * Simulated sign-in providers. The real ones require an account with a company, such as Google. Each is served below
 * `/<name>` of this process.
 */
export const simulatedProviders = {
  google: { ...common, company: "Google", alwaysOpenId: true },
  apple: {
    ...common,
    company: "Apple",
    alwaysOpenId: true,
    namesInAnswer: true,
    clientAuthentication: "client_secret_post",
  },
  azure: {
    ...common,
    company: "Microsoft",
    issuerPath: "/v2.0",
    paths: { ...common.paths, authorization: "/oauth2/v2.0/authorize", token: "/oauth2/v2.0/token" },
  },
  github: {
    ...common,
    company: "GitHub",
    paths: { ...common.paths, authorization: "/login/oauth/authorize", token: "/login/oauth/access_token" },
    alwaysOpenId: true,
    claimsInIdToken: false,
    githubApi: true,
  },
} as const satisfies Record<string, Shape>;

export type SimulatedProviderName = keyof typeof simulatedProviders;
export const simulatedProviderNames = Object.keys(simulatedProviders) as SimulatedProviderName[];

/** The demo's Microsoft tenant. Each tenant belongs to an organization and has its own URLs and issuer. */
export const demoTenant = "8a1f7f0e-0d5b-4d6c-9a40-2b6c7d8e9f01";

/** Returns the path below which a simulated provider is served. */
export function simulatedProviderPath(name: SimulatedProviderName): string {
  return name === "azure" ? `/azure/${demoTenant}` : `/${name}`;
}

/** Returns the base of a simulated provider's URLs. */
export function simulatedProviderBase(origin: string, name: SimulatedProviderName): string {
  return `${origin}${simulatedProviderPath(name)}`;
}

/** Returns a simulated provider's issuer. */
export function simulatedProviderIssuer(origin: string, name: SimulatedProviderName): string {
  return `${simulatedProviderBase(origin, name)}${simulatedProviders[name].issuerPath}`;
}

const endpoint = (name: string) => `/protocol/openid-connect/${name}`;

/** The demo provider itself, at the root, with Keycloak's endpoint paths. */
export const demoProvider: Shape = {
  ...common,
  paths: {
    authorization: endpoint("auth"),
    token: endpoint("token"),
    userinfo: endpoint("userinfo"),
    jwks: endpoint("certs"),
  },
  claimsInIdToken: false,
};
