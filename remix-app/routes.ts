import { index, type RouteConfig, route } from "@remix-run/route-config";

/** Every URL of the service, and the module that answers it. */
export default [
  index("routes/home.tsx"),

  route("login", "routes/login.tsx"),
  route("login/passkey", "routes/passkey-sign-in.ts"),
  route("login/passkey/options", "routes/passkey-sign-in-options.ts"),
  route("logout", "routes/logout.ts"),
  route("signup", "routes/signup.tsx"),
  route("signup/check-mail", "routes/check-mail.tsx"),
  route("forgot-password", "routes/forgot-password.tsx"),
  route("reset-password", "routes/reset-password.tsx"),
  route("auth/confirm", "routes/confirm.tsx"),
  route("theme", "routes/theme.ts"),

  route("settings/security", "routes/settings.security.tsx"),
  route("settings/security/export", "routes/settings.security.export.ts"),
  route("settings/security/delete-account", "routes/settings.security.delete-account.tsx"),
  route("settings/security/password", "routes/settings.security.password.tsx"),
  route("settings/security/sessions", "routes/settings.security.sessions.ts"),
  route("settings/security/activity", "routes/settings.security.activity.tsx"),
  route(".well-known/change-password", "routes/change-password.ts"),
  route("settings/security/passkeys", "routes/settings.security.passkeys.ts"),
  route("settings/security/passkeys/options", "routes/settings.security.passkeys.options.ts"),
  route("settings/security/passkeys/new", "routes/settings.security.passkeys.new.tsx"),
  route("settings/security/passkeys/:passkeyId/rename", "routes/settings.security.passkeys.rename.tsx"),
  route("settings/security/passkeys/:passkeyId/delete", "routes/settings.security.passkeys.delete.tsx"),

  route("mfa", "routes/mfa.tsx"),
  route("mfa/enroll", "routes/mfa.enroll.tsx"),
  route("mfa/recovery", "routes/mfa.recovery.tsx"),
  route("mfa/recovery-codes", "routes/mfa.recovery-codes.tsx"),
  route("mfa/remove", "routes/mfa.remove.tsx"),
  route("step-up", "routes/step-up.tsx"),

  route("workspaces", "routes/workspaces.tsx"),
  route("workspaces/:workspaceId", "routes/workspace.tsx"),
  route("workspaces/:workspaceId/members", "routes/workspace.members.tsx"),
  route("workspaces/:workspaceId/settings", "routes/workspace.settings.tsx"),
  route("workspaces/:workspaceId/activity", "routes/workspace.activity.tsx"),
  route("workspaces/:workspaceId/ai/runs", "routes/studio.runs.tsx"),
  route("workspaces/:workspaceId/ai/runs/:runId", "routes/studio.run.tsx"),
  route("workspaces/:workspaceId/ai/keys", "routes/studio.keys.tsx"),
  route("workspaces/:workspaceId/ai/keys/new", "routes/studio.keys.new.tsx"),
  route("invitation", "routes/invitation.tsx"),

  route("api/v1/auth/session", "routes/api.session.ts"),
  route("api/workspaces/:workspaceId", "routes/api.workspace-deletion.ts"),
  route("api/v1/users/me/sessions", "routes/api.sessions.ts"),
  route("api/v1/users/me/sessions/:sessionId", "routes/api.session-of-account.ts"),
  route("api/v1/users/me/security-events", "routes/api.security-events.ts"),
  route("api/v1/workspaces/:workspaceId/ai/runs", "routes/api.ai-runs.ts"),
  route("api/v1/workspaces/:workspaceId/ai/runs/:runId", "routes/api.ai-run.ts"),
  route("api/v1/workspaces/:workspaceId/ai/keys", "routes/api.ai-keys.ts"),
  route("api/v1/workspaces/:workspaceId/ai/keys/:keyId", "routes/api.ai-key.ts"),
  route("api/v1/workspaces/:workspaceId/ai/keys/:keyId/rotate", "routes/api.ai-key-rotation.ts"),

  route(".well-known/passkey-endpoints", "routes/well-known.passkey-endpoints.ts"),

  route("*", "routes/not-found.tsx"),
] satisfies RouteConfig;
