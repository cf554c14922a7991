import { createSatellite } from "@gatehousehq/satellite";
import { building } from "$app/environment";

const satellite = building ? null : createSatellite();

export async function handle({ event, resolve }) {
  const { request, url, locals } = event;
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
  return satellite.commit(request, await resolve(event));
}
