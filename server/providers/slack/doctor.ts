import { checkClient, type ProviderDoctor } from '../provider-doctor.ts'
import { botScopes } from './oauth.ts'

export const slackDoctor: ProviderDoctor = {
  checks: [
    ({ settings, redirectUrl }) =>
      checkClient('slack', settings, {
        path: '/oauth.v2.access',
        form: { code: 'made-up-by-the-doctor', redirect_uri: redirectUrl },
        accepted: ['invalid_code'],
        refused: {
          invalid_client_id: ['CLIENT_ID'],
          bad_client_secret: ['CLIENT_SECRET'],
          bad_redirect_uri: `The Slack app does not list the redirect URL ${redirectUrl}. Add it under OAuth & Permissions at api.slack.com/apps.`,
        },
        place: 'Basic Information at api.slack.com/apps',
      }),
  ],
  files({ settings, description, redirectUrl }) {
    const scopes = botScopes(settings)
    return {
      'slack-manifest.json': () => ({
        display_information: { name: 'Dealbell', description },
        features: { bot_user: { display_name: 'dealbell', always_online: true } },
        oauth_config: {
          redirect_urls: [redirectUrl],
          scopes: { bot: [...scopes.required, ...scopes.optional] },
        },
        settings: {
          org_deploy_enabled: false,
          socket_mode_enabled: false,
          token_rotation_enabled: false,
        },
      }),
    }
  },
}
