import { index, type RouteConfig, route } from "@remix-run/route-config";

/** Every URL of the service, and the module that answers it. */
export default [
  index("routes/home.tsx"),

  route("login", "routes/login.tsx"),
  route("logout", "routes/logout.ts"),
  route("signup", "routes/signup.tsx"),
  route("signup/check-mail", "routes/check-mail.tsx"),
  route("forgot-password", "routes/forgot-password.tsx"),
  route("reset-password", "routes/reset-password.tsx"),
  route("auth/confirm", "routes/confirm.tsx"),
  route("theme", "routes/theme.ts"),

  route("settings/security", "routes/settings.security.tsx"),

  route("workspaces", "routes/workspaces.tsx"),
  route("workspaces/:workspaceId", "routes/workspace.tsx"),

  route("api/v1/auth/session", "routes/api.session.ts"),

  route("*", "routes/not-found.tsx"),
] satisfies RouteConfig;
