/** Returns the name of a scope's checkbox. */
export function scopeField(scope: string): string {
  return `scope_${scope.replaceAll(":", "_")}`;
}

/** Returns the offered scopes that are ticked in a form. */
export function readTickedScopes(typed: Record<string, unknown>, offered: readonly string[]): string[] {
  return offered.filter((scope) => scopeField(scope) in typed);
}
