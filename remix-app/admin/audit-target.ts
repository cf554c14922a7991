/** The kinds of targets that have a page, and the page's path for a target's id. */
const paths: Readonly<Record<string, (id: string) => string>> = {
  workspace: (id) => `/admin/workspaces/${id}`,
  member: (id) => `/admin/users/${id}`,
  app: (id) => `/admin/apps/${id}`,
  openid_client: (id) => `/admin/openid-clients/${id}`,
  service_account: (id) => `/admin/service-accounts/${id}`,
  model: (id) => `/admin/models?${new URLSearchParams({ model: id })}`,
  plan: (id) => `/admin/plans/${id}`,
  provider: (id) => `/admin/providers/${id}`,
  address: (id) => `/admin/address-blocks?${new URLSearchParams({ q: id })}`,
  platform_invoice: (id) => `/admin/books/invoices/${id}`,
  platform_month: (id) => `/admin/books?${new URLSearchParams({ month: id })}`,
};

/** Returns the path of a target's page; null if it has none, or was deleted. */
export function getTargetPath({
  targetUserId,
  targetKind,
  targetId,
}: {
  targetUserId: string | null;
  targetKind: string | null;
  targetId: string | null;
}): string | null {
  if (targetUserId !== null) return `/admin/users/${targetUserId}`;
  if (targetKind === null || targetId === null) return null;
  return paths[targetKind]?.(targetId) ?? null;
}
