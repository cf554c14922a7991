import type Provider from "oidc-provider";
import type { KoaContextWithOIDC } from "oidc-provider";
import type { People, Person } from "./people.ts";

type Context = Pick<KoaContextWithOIDC, "path" | "status" | "body" | "get">;

const isTokenAnswer = (body: unknown): body is { id_token?: string } =>
  typeof body === "object" && body !== null && "access_token" in body;

/** Serves GitHub's `GET /user` and `GET /user/emails` at GitHub Enterprise's paths. */
export function githubApi({ provider, people }: { provider: Provider; people: People }) {
  return async (ctx: Context, next: () => Promise<unknown>) => {
    if (!ctx.path.startsWith("/api/v3/")) {
      await next();
      if (isTokenAnswer(ctx.body)) delete ctx.body.id_token;
      return;
    }
    const [, token = ""] = /^(?:bearer|token) (\S+)$/i.exec(ctx.get("authorization")) ?? [];
    const accessToken = token ? await provider.AccessToken.find(token) : undefined;
    const person = people.find(accessToken?.accountId ?? "");
    if (!person) {
      ctx.status = 401;
      ctx.body = { message: "Bad credentials" };
    } else if (ctx.path === "/api/v3/user") ctx.body = userOf(person, people);
    else if (ctx.path === "/api/v3/user/emails") ctx.body = emailsOf(person);
    else {
      ctx.status = 404;
      ctx.body = { message: "Not Found" };
    }
  };
}

/** Returns a profile without an email, as is usual on GitHub. */
function userOf(person: Person, people: People) {
  return {
    id: people.numberOf(person),
    login: person.email.split("@")[0],
    name: person.name,
    email: null,
    avatar_url: "",
  };
}

function emailsOf({ email, verified, others }: Person) {
  return [
    { email, verified, primary: true, visibility: "private" },
    ...others.map((other) => ({ ...other, primary: false, visibility: null })),
  ];
}
