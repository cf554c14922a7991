import { createSatellite } from "@gatehousehq/satellite";

const satellite = createSatellite();

export async function onRequest({ request, url, locals }, next) {
  try {
    const response = await satellite.handle(request);
    if (response) return response;
    const isPrivate = url.pathname.startsWith("/private");
    locals.user = await (isPrivate ? satellite.requireUser(request) : satellite.getUser(request));
  } catch (error) {
    const refusal = satellite.errorResponse(error, request);
    if (refusal) return refusal;
    throw error;
  }
  return satellite.commit(request, await next());
}
