import { z } from "zod";
import type { ProviderConfig } from "../../config/providers.ts";
import { flag, onlyEmail, text } from "./profile.ts";
import type { ApiProvider } from "./provider.ts";

const openIdUser = z.looseObject({ sub: z.string().min(1), name: text, email: text, email_verified: flag });

/** Configures Keycloak, or any server with Keycloak's endpoints below the configured URL. */
export function keycloak({ url }: ProviderConfig): ApiProvider {
  const endpoint = (name: string) => `${url}/protocol/openid-connect/${name}`;
  return {
    kind: "api",
    server: {
      issuer: url,
      authorization_endpoint: endpoint("auth"),
      token_endpoint: endpoint("token"),
      userinfo_endpoint: endpoint("userinfo"),
    },
    scopes: ["profile", "email"],
    async fetchProfile({ userinfo }) {
      const { sub, name, email, email_verified: verified, ...custom_claims } = await userinfo(openIdUser);
      return {
        subject: sub,
        emails: onlyEmail(email, verified),
        claims: { iss: url, name, full_name: name, provider_id: sub, custom_claims },
      };
    },
  };
}

const githubUser = z.looseObject({ id: z.number(), login: text, name: text, avatar_url: text });
const githubEmails = z.array(z.looseObject({ email: text, verified: flag, primary: flag }));

/** Configures github.com, or a GitHub Enterprise server at the configured URL. */
export function github({ url }: ProviderConfig): ApiProvider {
  const site = url || "https://github.com";
  const api = url ? `${url}/api/v3` : "https://api.github.com";
  return {
    kind: "api",
    server: {
      issuer: site,
      authorization_endpoint: `${site}/login/oauth/authorize`,
      token_endpoint: `${site}/login/oauth/access_token`,
    },
    scopes: ["user:email"],
    async fetchProfile({ get }) {
      const user = await get(`${api}/user`, githubUser);
      const emails = await get(`${api}/user/emails`, githubEmails);
      const subject = String(user.id);
      return {
        subject,
        emails: emails.filter(({ email }) => email !== ""),
        claims: {
          iss: api,
          name: user.name,
          full_name: user.name,
          preferred_username: user.login,
          user_name: user.login,
          avatar_url: user.avatar_url,
          provider_id: subject,
        },
      };
    },
  };
}

const gitlabUser = z.looseObject({ id: z.number(), name: text, email: text, avatar_url: text, confirmed_at: text });
const gitlabEmails = z.array(z.looseObject({ email: text }));

/**
 * Configures GitLab, or a server with the same API at the configured URL. Only the primary email has a verification
 * status.
 */
export function gitlab({ url }: ProviderConfig): ApiProvider {
  const site = url || "https://gitlab.com";
  return {
    kind: "api",
    server: {
      issuer: site,
      authorization_endpoint: `${site}/oauth/authorize`,
      token_endpoint: `${site}/oauth/token`,
    },
    scopes: ["read_user"],
    async fetchProfile({ get }) {
      const user = await get(`${site}/api/v4/user`, gitlabUser);
      const others = await get(`${site}/api/v4/user/emails`, gitlabEmails);
      const subject = String(user.id);
      return {
        subject,
        emails: [
          ...others
            .filter(({ email }) => email !== "")
            .map(({ email }) => ({ email, verified: false, primary: false })),
          ...onlyEmail(user.email, user.confirmed_at !== ""),
        ],
        claims: {
          iss: site,
          name: user.name,
          full_name: user.name,
          picture: user.avatar_url,
          avatar_url: user.avatar_url,
          provider_id: subject,
        },
      };
    },
  };
}

const slackUser = z.looseObject({
  "https://slack.com/user_id": z.string().min(1),
  "https://slack.com/team_id": text,
  email: text,
  email_verified: flag,
  name: text,
  picture: text,
});

/** Configures Sign in with Slack. If a URL is configured, uses the server at that URL instead of slack.com. */
export function slackOidc({ url }: ProviderConfig): ApiProvider {
  const site = url || "https://slack.com";
  return {
    kind: "api",
    server: {
      issuer: site,
      authorization_endpoint: `${site}/openid/connect/authorize`,
      token_endpoint: `${site}/api/openid.connect.token`,
      userinfo_endpoint: `${site}/api/openid.connect.userInfo`,
    },
    scopes: ["profile", "email", "openid"],
    async fetchProfile({ get }) {
      const user = await get(`${site}/api/openid.connect.userInfo`, slackUser);
      const subject = user["https://slack.com/user_id"];
      return {
        subject,
        emails: onlyEmail(user.email, user.email_verified),
        claims: {
          iss: `${site}/api`,
          name: user.name,
          full_name: user.name,
          picture: user.picture,
          avatar_url: user.picture,
          provider_id: subject,
          custom_claims: { "https://slack.com/team_id": user["https://slack.com/team_id"] },
        },
      };
    },
  };
}
