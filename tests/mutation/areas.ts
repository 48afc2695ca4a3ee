interface Area {
  /** The files that Stryker changes, one small mutation at a time. */
  mutate: string[]
  /** The tests that should fail then. */
  tests: string[]
  project: 'dashboard' | 'server'
}

/**
 * Each mutant runs against the tests of its area only. A mutant of code that runs at import, such as a
 * constant, runs against all of them.
 */
export const areas: Readonly<Record<string, Area>> = {
  contract: {
    mutate: ['contract/endpoints.ts'],
    tests: ['tests/contract/{answers,contract}.test.ts', 'tests/server/page.test.ts'],
    project: 'server',
  },
  rules: {
    mutate: ['contract/rules.ts'],
    tests: ['tests/components/rules.test.tsx'],
    project: 'dashboard',
  },
  headers: {
    mutate: ['contract/page-headers.ts'],
    tests: ['tests/server/security-headers.test.ts'],
    project: 'server',
  },
  refusals: {
    mutate: ['server/http/safety-headers.ts'],
    tests: ['tests/server/{incoming,security-headers}.test.ts'],
    project: 'server',
  },
  vault: {
    mutate: ['server/people/vault.ts'],
    tests: ['tests/server/vault.test.ts'],
    project: 'server',
  },
  signature: {
    mutate: ['server/providers/hubspot/signature.ts'],
    tests: ['tests/relay/signature.test.ts'],
    project: 'server',
  },
  state: {
    mutate: ['server/api/authorization.ts'],
    tests: ['tests/server/authorization.test.ts'],
    project: 'server',
  },
  session: {
    mutate: [
      'server/people/identity.ts',
      'server/people/session.ts',
      'server/people/session-token.ts',
    ],
    tests: [
      'tests/relay/identity.test.ts',
      'tests/server/{callback-orders,full-disk,guards,rate-limit}.test.ts',
      'tests/server/{session,sign-out,stand-ins}.test.ts',
    ],
    project: 'server',
  },
  operator: {
    mutate: ['server/activity/operator{,-answers}.ts', 'server/api/operator.ts'],
    tests: ['tests/relay/{operator,watch}.test.ts'],
    project: 'server',
  },
  'same-site': {
    mutate: ['server/http/origin.ts'],
    tests: [
      'tests/relay/operator.test.ts',
      'tests/relay/watch.test.ts',
      'tests/server/{incoming,same-site}.test.ts',
    ],
    project: 'server',
  },
  api: {
    mutate: ['src/api/*.ts', '!src/api/{activity,preview,retry-all,summary}.ts'],
    tests: [
      'tests/api/*.test.tsx',
      'tests/components/{broken,callback,connection-names,dashboard,health}.test.tsx',
      'tests/components/{other-settings,person,rules,save,sign-out,test-message}.test.tsx',
      'tests/components/model/*.test.ts',
    ],
    project: 'dashboard',
  },
  activity: {
    mutate: ['src/api/{activity,preview,retry-all,summary}.ts'],
    tests: ['tests/components/{activity,broken,insights}.test.tsx'],
    project: 'dashboard',
  },
}
