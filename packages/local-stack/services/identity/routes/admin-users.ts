import { Hono } from "hono";
import { z } from "zod";
import {
  type AdminUser,
  createUserAsAdmin,
  deleteUserAsAdmin,
  isUuid,
  listUsers,
  updateUserAsAdmin,
} from "../core/admin-users.ts";
import type { Deps } from "../core/deps.ts";
import { AuthError, invalid } from "../core/errors.ts";
import { generateLink } from "../core/generate-link.ts";
import { listIdentities } from "../core/identities.ts";
import { invite } from "../core/invite.ts";
import { isAllowedRedirect } from "../core/redirect-target.ts";
import { findUserById, type User } from "../core/users.ts";
import { loadWireUser, wireUser } from "../core/wire-user.ts";
import { requireAdmin } from "../http/bearer.ts";
import { flag, metadata, optionalText, readJson, readOptionalJson, text } from "../http/body.ts";
import { type Env, type Request, requestAudience } from "../http/context.ts";
import { redirectTarget } from "../http/redirect-to.ts";

const userBody = z
  .looseObject({
    id: text,
    aud: text,
    role: text,
    email: text,
    phone: text,
    password: optionalText,
    password_hash: text,
    email_confirm: flag,
    user_metadata: metadata,
    app_metadata: metadata,
    ban_duration: text,
  })
  .transform((body): AdminUser & { phone: string } => ({
    id: body.id,
    aud: body.aud,
    role: body.role,
    email: body.email,
    phone: body.phone,
    password: body.password,
    passwordHash: body.password_hash,
    emailConfirm: body.email_confirm,
    userMetadata: body.user_metadata,
    appMetadata: body.app_metadata,
    banDuration: body.ban_duration,
  }));
const deleteBody = z.looseObject({ should_soft_delete: flag });
const inviteBody = z.looseObject({ email: text, data: metadata });
const linkBody = z.looseObject({
  type: text,
  email: text,
  new_email: text,
  password: text,
  data: metadata,
  redirect_to: text,
});

/** Returns the account that a path names. @throws AuthError 404 user_not_found, validation_failed */
export async function requirePathUser(deps: Deps, id: string): Promise<User> {
  if (!isUuid(id)) throw new AuthError(404, "validation_failed", "user_id must be an UUID");
  const user = await findUserById(deps.db, { id });
  if (!user) throw new AuthError(404, "user_not_found", "User not found");
  return user;
}

function requireNoPhone({ phone }: { phone: string }): void {
  if (phone) throw new AuthError(501, "not_implemented", "The local identity server knows no phones");
}

/** Serves accounts to administrators. */
export function adminUserRoutes(deps: Deps): Hono<Env> {
  return new Hono<Env>()
    .get("/admin/users", async (c) => {
      await requireAdmin(c, deps);
      const page = pageNumber(c.req.query("page"), { byDefault: 1n, below1: 1n });
      const perPage = pageNumber(c.req.query("per_page"), { byDefault: 50n, below1: 20n });
      const aud = requestAudience(c, deps);
      const ascending = parseSort(c.req.queries("sort") ?? []);
      const filter = c.req.query("filter") ?? "";
      const { users, total } = await listUsers(deps, { page, perPage, filter, ascending, aud });
      c.header("X-Total-Count", String(total));
      c.header("Link", pageLinks(c, { page, lastPage: (total + perPage - 1n) / perPage }));
      return c.json({ users: users.map((user) => wireUser(user)), aud });
    })
    .post("/admin/users", async (c) => {
      await requireAdmin(c, deps);
      const input = await readJson(c, userBody);
      requireNoPhone(input);
      const user = await createUserAsAdmin(deps, { ...input, requestAud: requestAudience(c, deps) });
      return c.json(await loadWireUser(deps.db, user));
    })
    .get("/admin/users/:userId", async (c) => {
      await requireAdmin(c, deps);
      return c.json(await loadWireUser(deps.db, await requirePathUser(deps, c.req.param("userId"))));
    })
    .put("/admin/users/:userId", async (c) => {
      await requireAdmin(c, deps);
      const user = await requirePathUser(deps, c.req.param("userId"));
      const input = await readJson(c, userBody);
      requireNoPhone(input);
      // Like Supabase Auth, responds with the identities before the change.
      const before = await listIdentities(deps.db, user.id);
      const changed = await loadWireUser(deps.db, await updateUserAsAdmin(deps, user, input), { overrides: before });
      return c.json(changed);
    })
    .delete("/admin/users/:userId", async (c) => {
      await requireAdmin(c, deps);
      const user = await requirePathUser(deps, c.req.param("userId"));
      const input = await readOptionalJson(c, deleteBody);
      await deleteUserAsAdmin(deps, user, { soft: input?.should_soft_delete ?? false });
      return c.json({});
    })
    .post("/invite", async (c) => {
      await requireAdmin(c, deps);
      const { email, data } = await readJson(c, inviteBody);
      const aud = requestAudience(c, deps);
      return c.json(await invite(deps, { email, data: data ?? {}, aud, redirectTo: redirectTarget(c, deps) }));
    })
    .post("/admin/generate_link", async (c) => {
      await requireAdmin(c, deps);
      const input = await readJson(c, linkBody);
      const link = await generateLink(deps, {
        type: input.type,
        email: input.email,
        newEmail: input.new_email,
        password: input.password,
        data: input.data ?? {},
        redirectTo: isAllowedRedirect(input.redirect_to, deps.config) ? input.redirect_to : redirectTarget(c, deps),
        aud: requestAudience(c, deps),
      });
      return c.json(link);
    });
}

const bits = 64;

/** Parses a number as Go does: unsigned, then converted to signed. Anything below 1 becomes `below1`. */
function pageNumber(value: string | undefined, { byDefault, below1 }: { byDefault: bigint; below1: bigint }): bigint {
  if (!value) return byDefault;
  const number = /^\d+$/.test(value) ? BigInt(value) : -1n;
  if (number !== BigInt.asUintN(bits, number))
    throw invalid(`Bad Pagination Parameters: "${value}" is not a valid number`);
  const signed = BigInt.asIntN(bits, number);
  return signed < 1n ? below1 : signed;
}

function parseSort(values: string[]): boolean {
  let ascending = false;
  for (const value of values) {
    const [field, direction = "desc"] = value.split(" ");
    if (field !== "created_at") throw invalid(`Bad Sort Parameters: bad field for sort '${field}'`);
    if (!/^(asc|desc)$/i.test(direction)) {
      throw invalid(`Bad Sort Parameters: bad direction for sort '${direction}', only 'asc' and 'desc' allowed`);
    }
    ascending = direction.toLowerCase() === "asc";
  }
  return ascending;
}

/** Returns RFC 8288 links to the next and the last page. */
function pageLinks(c: Request, { page, lastPage }: { page: bigint; lastPage: bigint }): string {
  const url = new URL(c.req.url);
  const link = (target: bigint, relation: string) => {
    url.searchParams.set("page", String(target));
    url.searchParams.sort();
    return `<${url.pathname}${url.search}>; rel="${relation}"`;
  };
  return [...(lastPage > page ? [link(page + 1n, "next")] : []), link(lastPage, "last")].join(", ");
}
