// Zod compiles schemas with `new Function`, which the pages' policy forbids. Zod reads this when its module loads, so
// `config` would come too late: modules that define schemas load first.
globalThis.__zod_globalConfig = { jitless: true };
