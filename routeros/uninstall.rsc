# Removes everything that install.rsc made, also after an installation that failed halfway. Keys and configuration stay on the disk.
#   /import file-name=uninstall.rsc

# As in install.rsc.
:local tag "wattle"

# Unknown options and menus end a whole script before its first line runs: what not every version and device has is text,
# parsed when it is wanted.
:local run do={ :local code [:parse $1]; $code }
:local ask do={ :local code [:parse $1]; :return [$code] }

:local release [/system/resource/get version]
:local dot [:find $release "."]
:local rest [:pick $release ($dot + 1) [:len $release]]
:local digits 0
:while (($digits < [:len $rest]) && ([:typeof [:find "0123456789" [:pick $rest $digits ($digits + 1)]]] = "num")) do={ :set digits ($digits + 1) }
:local minor [:tonum [:pick $rest 0 $digits]]
:local envGroup "name"
:local mountGroup "name"
:if ($minor >= 20) do={ :set envGroup "list" }
:if ($minor >= 21) do={ :set mountGroup "list" }

# Without the container package there is no such menu, and nothing of ours in it.
:local left 0
:do { :set left [$ask ":return [:len [/container/find where comment=\"$tag\"]]"] } on-error={}
:if ($left > 0) do={
  :do { $run "/container/stop [/container/find where comment=\"$tag\"]" } on-error={}
  # It cannot be removed before it has stopped, and how that is told changes with the version: tried until it works.
  :local waited 0
  :while (($left > 0) && ($waited < 60)) do={
    :do { $run "/container/remove [/container/find where comment=\"$tag\"]" } on-error={}
    :delay 1s
    :set waited ($waited + 1)
    :set left [$ask ":return [:len [/container/find where comment=\"$tag\"]]"]
  }
  :if ($left > 0) do={ :error "wattle: the container does not stop: /container/stop it by hand, then run this again" }
}
:do { $run "/container/envs/remove [/container/envs/find where $envGroup=\"$tag\"]" } on-error={}
:do { $run "/container/mounts/remove [/container/mounts/find where $mountGroup=\"$tag\"]" } on-error={}

/ip/route/remove [/ip/route/find where comment=$tag]
/routing/rule/remove [/routing/rule/find where comment=$tag]
/ip/firewall/filter/remove [/ip/firewall/filter/find where comment=$tag]
/ip/firewall/nat/remove [/ip/firewall/nat/find where comment=$tag]
/ipv6/firewall/filter/remove [/ipv6/firewall/filter/find where comment=$tag]
/ipv6/address/remove [/ipv6/address/find where comment=$tag]
/ip/address/remove [/ip/address/find where comment=$tag]
/interface/list/member/remove [/interface/list/member/find where comment=$tag]
:do { $run "/interface/veth/remove [/interface/veth/find where comment=\"$tag\"]" } on-error={}

:put "wattle: removed. Keys and configuration are still on the disk, in the folder wattle"
